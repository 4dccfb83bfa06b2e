"""`calibsft serve` as a process of its own on a free port of loopback, for tests of the gateway.

It counts as started once it is healthy, gets no key or token but those that a test gives, and never outlives the tests.
Starts no model servers: those are `chat_servers`, or a test's own.
"""

import os
import re
import runpy
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkstemp
from typing import Any

import httpx2

from calibsft.decisions.policy import Policy
from end_with_parent import end_with_parent

START_SECONDS = 180.0
STOP_SECONDS = 60.0
# Names how long a connection may be idle, for tests that cannot wait as long as clients do.
IDLE_SECONDS = "CALIBSFT_TEST_IDLE_SECONDS"
SAYS_WHERE = re.compile(r"^policy \w+, model '(.*)': (http://\S+/v1)$", re.MULTILINE)
SECRETS = ("CALIBSFT_LOCAL_API_KEY", "CALIBSFT_STRONG_API_KEY", "CALIBSFT_SERVE_TOKEN", "OPENAI_API_KEY")


@dataclass
class Running:
    """One gateway.

    Attributes
    ----------
    url
        With `/v1`, as the official client takes it.
    model
        The name that clients ask for.
    log
        All that it wrote on both outputs.
    """

    url: str
    model: str
    process: subprocess.Popen[bytes]
    log: Path

    def metrics(self) -> dict[str, float]:
        """What `/metrics` says, each sample by its name and labels as they stand there."""
        page = httpx2.get(self.url.removesuffix("/v1") + "/metrics", trust_env=False, timeout=START_SECONDS)
        page.raise_for_status()
        samples = (line.rpartition(" ") for line in page.text.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, _, value in samples}

    def count(self, name: str, *labels: str) -> float:
        """The sum of a metric over all samples with these labels, written as `decision="deferred"`."""
        return sum(
            value
            for sample, value in self.metrics().items()
            if sample.partition("{")[0] == name and all(label in sample for label in labels)
        )

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def connected(self) -> socket.socket:
        """A connection on which nothing was sent yet."""
        address = httpx2.URL(self.url)
        return socket.create_connection((address.host, address.port), START_SECONDS)

    def terminate(self) -> None:
        """SIGTERM, as a service manager sends it; `ended` waits for what follows."""
        self.process.send_signal(signal.SIGTERM)

    def ended(self) -> int:
        """Its exit status, once it has ended."""
        return self.process.wait(STOP_SECONDS)


def policy(**fields: Any) -> Policy:
    """A policy that defers below 0.50, also when the local model fails; `fields` change it."""
    otherwise = fields.get("otherwise", "defer")
    return Policy(
        **{
            "otherwise": otherwise,
            "threshold": 0.5,
            "guarantee": "high-probability",
            "procedure": "union",
            "risk": 0.1 if otherwise == "abstain" else None,
            "epsilon": 0.1 if otherwise == "defer" else None,
            "delta": 0.05,
            "n": 1000,
            "data_hash": "0" * 64,
            "on_local_failure": "defer" if otherwise == "defer" else "error",
            **fields,
        }
    )


def policy_file(folder: Path, **fields: Any) -> Path:
    """Such a policy in a file of its own."""
    path = _new_file(folder, "policy-", ".json")
    path.write_text(policy(**fields).model_dump_json())
    return path


@contextmanager
def gateway(
    policy: Path,
    local: str,
    strong: str | None = None,
    *,
    check: bool = False,
    environment: Mapping[str, str] | None = None,
    **options: object,
) -> Iterator[Running]:
    """A running gateway; `options` are those of `calibsft serve`, `local_model="m"` for `--local-model m`.

    Its log is beside the policy. Only the variables in `environment` may hold keys or the clients'
    token. Without `check` it asks its servers nothing before a test does.
    """
    arguments = ["--policy", policy, "--local", local, *(["--strong", strong] if strong else [])]
    arguments += [] if check else ["--no-check"]
    for name, value in {"port": 0, **options}.items():
        arguments += [f"--{name.replace('_', '-')}", value]
    log = _new_file(policy.parent, "gateway-", ".log")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, __file__, "serve", *map(str, arguments)],
            env=_environment(environment or {}),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield _healthy(process, log)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdin is not None
        process.stdin.close()


def _environment(given: Mapping[str, str]) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if name not in SECRETS}
    return clean | {"NO_PROXY": "127.0.0.1", "OMP_NUM_THREADS": "1", **given}


def _new_file(folder: Path, prefix: str, suffix: str) -> Path:
    handle, name = mkstemp(suffix, prefix, folder)
    os.close(handle)
    return Path(name)


def _healthy(process: subprocess.Popen[bytes], log: Path) -> Running:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        # The address is said before anyone can connect to it.
        said = SAYS_WHERE.search(log.read_text(errors="replace"))
        if said and _answers(said[2].removesuffix("/v1") + "/healthz"):
            return Running(said[2], said[1], process, log)
        time.sleep(0.02)
    raise RuntimeError(
        f"the gateway did not start; {log} ends with\n{log.read_text(errors='replace')[-3000:]}"
    )


def _answers(url: str) -> bool:
    try:
        return httpx2.get(url, trust_env=False).is_success
    except httpx2.HTTPError:
        return False


if __name__ == "__main__":
    end_with_parent()
    if IDLE_SECONDS in os.environ:
        from calibsft.gateway import server

        server.IDLE_SECONDS = int(os.environ[IDLE_SECONDS])
    runpy.run_module("calibsft", run_name="__main__", alter_sys=True)
