"""A Hub that does not answer is told at once, instead of after minutes; what was downloaded is still used."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

# Far above what is needed and far below the minutes that the Hub's libraries try for.
PATIENCE = 60


@pytest.fixture
def silent_hub() -> Iterator[str]:
    """The address of a server that accepts connections and never says anything."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def calibsft(endpoint: str, folder: Path, *words: str) -> tuple[int, str]:
    environment = {name: value for name, value in os.environ.items() if name != "HF_HUB_OFFLINE"}
    environment |= {"HF_ENDPOINT": endpoint, "HF_HOME": str(folder / "hf"), "NO_PROXY": "127.0.0.1"}
    found = subprocess.run(
        [sys.executable, "-m", "calibsft", *words],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    return found.returncode, found.stderr


def rollout(folder: Path, model: str) -> list[str]:
    (folder / "q.csv").write_text("question_id,question,gold,kind\n1,1*1,0001,exact\n")
    sampled = ["-n", "1", "--max-new-tokens", "2", "--device", "cpu"]
    return ["rollout", "--model", model, "--questions", "q.csv", "--out", "o", *sampled]


def test_a_model_that_is_not_there(silent_hub: str, tmp_path: Path) -> None:
    code, said = calibsft(silent_hub, tmp_path, *rollout(tmp_path, "org/model"))
    assert code == 2
    assert said == (
        "calibsft: model 'org/model' is neither a folder nor downloaded, and the Hub does not answer (nothing from"
        f" {silent_hub} within 4 s); check the connection, or give a checkpoint folder\n"
    )


def test_a_benchmark_that_is_not_there(silent_hub: str, tmp_path: Path) -> None:
    code, said = calibsft(silent_hub, tmp_path, "validate", "--benchmark", "math-500")
    assert code == 2
    warning, sentence = said.splitlines()
    assert warning.startswith(
        f"warning: the Hub does not answer (nothing from {silent_hub} within 4 s); only what"
    )
    assert sentence.startswith("calibsft: HuggingFaceH4/MATH-500 test: could not be loaded from the Hub")


def test_a_model_that_was_downloaded_is_used(
    silent_hub: str, tmp_path: Path, random_checkpoint: Path
) -> None:
    cache = tmp_path / "hf/hub/models--org--model"
    shutil.copytree(random_checkpoint, cache / "snapshots/0123")
    (cache / "refs").mkdir()
    (cache / "refs/main").write_text("0123")
    code, said = calibsft(silent_hub, tmp_path, *rollout(tmp_path, "org/model"))
    assert code == 0, said
    assert "warning: the Hub does not answer" in said and "rollout: done" in said


class Absent(BaseHTTPRequestHandler):
    """A Hub that answers, but has nothing."""

    def do_HEAD(self) -> None:
        self.send_response(404)
        self.end_headers()

    do_GET = do_HEAD

    def log_message(self, *_: object) -> None:
        pass


def test_a_hub_that_answers_is_asked(tmp_path: Path) -> None:
    server = HTTPServer(("127.0.0.1", 0), Absent)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        endpoint = f"http://127.0.0.1:{server.server_port}"
        code, said = calibsft(endpoint, tmp_path, *rollout(tmp_path, "org/model"))
    finally:
        server.shutdown()
        server.server_close()
    assert code == 2 and "does not answer" not in said
    assert said.startswith("calibsft: model 'org/model' is neither a folder nor reachable on the Hub")
