"""Processes of `flaky_server`, which can be killed and started again, and what they were paid for."""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import flaky_server
from command_process import ENVIRONMENT


class Flaky:
    """A server process on a port of its own, that can be killed and started again."""

    def __init__(self, folder: Path, number: int, failing: float) -> None:
        self.journal = folder / f"paid-{number}.jsonl"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        self._command = [
            sys.executable,
            flaky_server.__file__,
            str(self.port),
            str(failing),
            str(self.journal),
        ]
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, env=ENVIRONMENT)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            with socket.socket() as trying:
                if trying.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        raise AssertionError("the server did not start")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    @property
    def paid(self) -> list[tuple[tuple[int, ...], int, int]]:
        """Prompt, seed and tokens of every response that it finished."""
        lines = self.journal.read_text().splitlines() if self.journal.exists() else []
        return [(tuple(prompt), seed, tokens) for prompt, seed, tokens in map(json.loads, lines)]


@contextmanager
def two_servers(folder: Path, failing: float) -> Iterator[list[Flaky]]:
    with ExitStack() as stack:
        servers = [Flaky(folder, number, failing) for number in range(2)]
        for server in servers:
            stack.callback(server.kill)
        yield servers
