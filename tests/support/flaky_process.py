"""Processes of `flaky_server`, which can be killed and started again, and what they were paid for."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import flaky_server
from server_process import ServerProcess


class Flaky(ServerProcess):
    """A server that fails now and then."""

    def __init__(self, folder: Path, number: int, failing: float) -> None:
        self.journal = folder / f"paid-{number}.jsonl"
        super().__init__(flaky_server.__file__, failing, self.journal)
        self.url = f"http://127.0.0.1:{self.port}/v1"

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
