"""The servers of a policy that a run starts for an RL stage: started, waited for, started again if they end, and ended.

What they print goes to a file of the stage, since several print at once. Knows nothing of RL.
"""

import os
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from calibsft import supervised
from calibsft.artifacts import make_folder
from calibsft.errors import InputError
from calibsft.launchers import ServerLaunch
from calibsft.pipeline.launched import program
from calibsft.progress import info, warn

CHECK_SECONDS = 2.0
# Of a server that ends as soon as it starts, another start will not help.
MOST_STARTS = 5


@contextmanager
def policy_servers(launch: ServerLaunch, model: str, logs: Path) -> Iterator[None]:
    """Servers of `model`, for the time of the context; their output is in `logs`."""
    make_folder(logs)
    servers = [
        _Server(launch, model, number, logs / f"server-{number}.log") for number in range(len(launch.gpus))
    ]
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(servers, ended), daemon=True)
    with ExitStack() as ending:
        for server in servers:
            server.start()
            ending.callback(server.end)
        for server in servers:
            server.wait_until_ready()
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()


def _watch(servers: list["_Server"], ended: threading.Event) -> None:
    """Start servers again that have ended; the trainer waits for them, or goes on with the others."""
    while not ended.wait(CHECK_SECONDS):
        for server in servers:
            server.start_again_if_ended()


class _Server:
    def __init__(self, launch: ServerLaunch, model: str, number: int, log: Path) -> None:
        self._launch, self._log, self._starts = launch, log, 0
        self._url = launch.urls[number]
        first, *rest = launch.command
        self._command = [program(first), *rest, model, "--port", str(launch.port + number)]
        gpus = launch.gpus[number]
        self._environment = os.environ | ({"CUDA_VISIBLE_DEVICES": gpus} if gpus else {})

    def start(self) -> None:
        self._starts += 1
        with self._log.open("ab") as log:
            self._process = supervised.started(self._command, self._environment, log)

    def wait_until_ready(self) -> None:
        info(f"waiting for the policy's server at {self._url} (its output: {self._log})")
        deadline = time.monotonic() + self._launch.patience
        while not self._answers():
            if self._process.poll() is not None:
                raise InputError(f"the policy's server at {self._url} ended; see {self._log}")
            if time.monotonic() > deadline:
                raise InputError(
                    f"the policy's server at {self._url} does not answer after {self._launch.patience:.0f} s; see"
                    f" {self._log}, or raise launch.servers.patience"
                )
            time.sleep(CHECK_SECONDS)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._url}/health", timeout=CHECK_SECONDS) as reply:
                return bool(reply.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    def start_again_if_ended(self) -> None:
        if self._process.poll() is not None and self._starts < MOST_STARTS:
            warn(f"the policy's server at {self._url} ended and is started again; see {self._log}")
            self.start()

    def end(self) -> None:
        supervised.end(self._process)
