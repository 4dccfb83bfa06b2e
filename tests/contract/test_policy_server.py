"""RL against real vLLM servers: they have the trainer's weights after every step, and one that is killed comes back.

vLLM lives in an environment of its own (`scripts/engines-env`); without it these tests are skipped.
"""

import json
import os
import signal
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from calibsft.playground.base import train_base
from calibsft.playground.settings import BaseSettings
from calibsft.playground.world import training_questions
from calibsft.progress import Progress
from calibsft.responses.formats import FORMATS
from calibsft.responses.prompts import Prompting
from calibsft.rl.methods import METHODS
from calibsft.rl.train import train_policy
from calibsft.schema import Question

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
ROOT = Path(__file__).parents[2]
OTHER = Path(os.environ.get("CALIBSFT_ENGINES_PYTHON", ROOT / ".venv-engines/bin/python"))
ENVIRONMENT = os.environ | {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "PYTHONPATH": str(ROOT / "src"),
}
CLOSE = 1e-3
EVEN = tuple(f"{n:04d}" for n in range(0, 10_000, 2))
QUESTIONS = [Question(q.id, q.text, EVEN, "exact", "even") for q in training_questions()[:12]]
QUICK = {
    "steps": 4, "questions": 4, "group_size": 4, "updates": 2, "micro_batch_size": 4, "max_new_tokens": 30,
    "learning_rate": 3e-4, "warmup_steps": 0, "save_every": 1, "policy": "served",
}  # fmt: skip


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short playground base with a head dimension of 64, which vLLM asks for."""
    folder = tmp_path_factory.mktemp("base")
    settings = BaseSettings(steps=250, warmup_steps=20, head_dim=64)
    with Progress("base", settings.steps, "steps") as progress:
        train_base(settings, 0, folder, progress)
    return folder


class PolicyServer:
    """A vLLM process that `calibsft policy-server` has started."""

    def __init__(self, model: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        self.url = f"http://127.0.0.1:{port}"
        options = [f"--vllm={option}" for option in ("enforce-eager", "block-size=32")]
        self._command = [
            OTHER, "-m", "calibsft", "policy-server", model, "--port", port, "--dtype", "float32", *options
        ]  # fmt: skip
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, env=ENVIRONMENT, start_new_session=True)
        deadline = time.monotonic() + 600
        while not self._answers():
            assert self._process.poll() is None and time.monotonic() < deadline, "the server did not start"
            time.sleep(1)

    def _answers(self) -> bool:
        try:
            return bool(self.get("/health") is not None)
        except OSError:
            return False

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.url + path, timeout=5) as reply:
            return json.loads(reply.read() or b"{}")

    def kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@pytest.fixture
def serve(base: Path) -> Iterator[Callable[[], PolicyServer]]:
    if not OTHER.exists():
        pytest.skip(
            "make the engines' environment with scripts/engines-env, or name it in CALIBSFT_ENGINES_PYTHON"
        )
    started: list[PolicyServer] = []

    def start() -> PolicyServer:
        started.append(PolicyServer(base))
        return started[-1]

    yield start
    for server in started:
        server.kill()


def train(base: Path, folder: Path, *urls: str, **changes: Any) -> list[dict[str, Any]]:
    folder.mkdir(exist_ok=True)
    settings = METHODS["rlcr"].settings.model_validate({**QUICK, "servers": {"urls": urls}, **changes})
    train_policy(str(base), QUESTIONS, {}, settings, Prompting(FORMATS["probability"]), 0, folder, "cpu")
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("changes", [{}, {"lora": {"rank": 4, "alpha": 8}}], ids=["weights", "adapters"])
def test_a_server_has_the_trainers_weights_after_every_step(
    changes: dict[str, Any], base: Path, tmp_path: Path, serve: Callable[[], PolicyServer]
) -> None:
    server = serve()
    rows = train(base, tmp_path / "run", server.url, **changes)
    assert [row["step"] for row in rows] == [1, 2, 3, 4]
    for row in rows:
        assert row["sampler/gap"] < CLOSE and row["sampler/kl"] < CLOSE and row["sampler/clipped"] == 0
        assert row["grad_norm"] > 0
    # The weights of the last step, which has two updates after them.
    assert server.get("/weight_info")["weight_version"].endswith("-6")


def test_a_server_that_is_killed_and_started_again_loses_nothing(
    base: Path, tmp_path: Path, serve: Callable[[], PolicyServer]
) -> None:
    stays, dies = serve(), serve()
    journal = tmp_path / "run" / "metrics.jsonl"

    def restart() -> None:
        while not (journal.is_file() and journal.read_text().count("\n") >= 2):
            time.sleep(0.1)
        dies.kill()
        dies.start()

    restarting = threading.Thread(target=restart)
    restarting.start()
    rows = train(base, tmp_path / "run", stays.url, dies.url, steps=12)
    restarting.join()
    assert [row["step"] for row in rows] == list(range(1, 13))
    assert all(row["sampler/gap"] < CLOSE for row in rows), "no response is of old weights"
    assert all(row["generated_groups"] == 4 * row["batches"] for row in rows), "every group is there"
