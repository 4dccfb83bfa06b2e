"""Servers of one policy, each asked only while it has the newest weights.

A server that was restarted has old weights. It is noticed before its next request or by the version in its reply, gets the
newest weights, and the request is repeated.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from calibsft.served.fleet import Fleet, run
from calibsft.served.role import Role
from calibsft.served.server import Failed, Reply, Server

Load = Callable[[Server], Coroutine[Any, Any, None]]


class PolicyFleet(Fleet):
    """A fleet whose servers must have one version of the weights.

    Attributes
    ----------
    version : the newest version; empty before the first.
    load : lets a server take the weights of that version.
    """

    def __init__(
        self,
        role: Role,
        urls: Sequence[str],
        model: str,
        concurrency: int,
        timeout: float,
        retries: int,
        load: Load,
    ) -> None:
        super().__init__(role, urls, model, concurrency, timeout, retries)
        self.version = ""
        self.load = load
        self._current: dict[str, str] = {}
        self._turns: dict[Server, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def prepare(self, server: Server) -> None:
        """Give `server` the newest weights unless it is known to have them."""
        async with self._turns[server]:
            if self._current.get(server.url) == self.version and not server.failed:
                return
            if await weight_version(server) != self.version:
                await update(server, self.version, self.load)
            self._current[server.url] = self.version

    def require_newest(self, choice: Reply) -> None:
        """Raise `Failed` for a choice that other weights have sampled, even in part."""
        spans = choice.get("weight_versions")
        versions = (
            {span.get("version") for span in spans if isinstance(span, dict)}
            if isinstance(spans, list)
            else set()
        )
        if versions != {self.version}:
            self._current.clear()  # any server may have sampled it
            raise Failed("reply")

    def send_to_all(self) -> None:
        """Give every server the weights that `load` has now; those that are not there get them when they return."""

        async def each() -> list[Failed | None]:
            servers = self.servers()
            try:
                return await asyncio.gather(*(self._sent(server) for server in servers))
            finally:
                await asyncio.gather(*(server.close() for server in servers))

        failures = run(each())
        if all(failures):
            assert failures[0] is not None
            raise self.problem(failures[0], self.urls[0])

    async def _sent(self, server: Server) -> Failed | None:
        try:
            await update(server, self.version, self.load)
        except Failed as failure:
            self._current.pop(server.url, None)
            return failure
        self._current[server.url] = self.version
        return None


async def weight_version(server: Server) -> str | None:
    """The version that a server says it has."""
    version = (await server.ask("GET", "/weight_info")).get("weight_version")
    return version if isinstance(version, str) else None


async def update(server: Server, version: str, load: Load) -> None:
    """Let a server take new weights between its requests; what it has cached of the old ones is dropped."""
    await server.ask("POST", "/pause?mode=wait")
    try:
        await load(server)
        await server.ask("POST", "/update_weight_version", {"new_version": version})
        await server.ask("POST", "/reset_prefix_cache")
    finally:
        await server.ask("POST", "/resume")
