"""Many requests to one or several servers of the same model: each is answered once, by whichever server is free.

A request that fails is repeated after a growing pause, by any server. A server that fails in a row leaves the rotation and
returns when it replies again (`server`). Does not know what is asked.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from calibsft.errors import InputError
from calibsft.interrupts import run_async
from calibsft.served.keys import COMMON_KEY, key_from
from calibsft.served.pauses import growing_pause
from calibsft.served.role import Role
from calibsft.served.server import Failed, Reply, Server

FIRST_PAUSE, LONGEST_PAUSE = 0.25, 8.0

T = TypeVar("T")
Read = Callable[[int, Reply], T]


@dataclass(slots=True)
class Job:
    """One request, and how often it failed."""

    number: int
    path: str
    body: Reply
    failures: int = 0


class Fleet:
    """Servers of one model.

    Parameters
    ----------
    role : what they are for; it words the errors.
    model : the model's name at the servers.
    concurrency : requests at the same time, at each server.
    timeout : seconds that one request may take.
    retries : how often a request is repeated, and how often a server that does not answer is waited for.
    """

    def __init__(
        self, role: Role, urls: Sequence[str], model: str, concurrency: int, timeout: float, retries: int
    ) -> None:
        self.role, self.urls, self.model = role, tuple(urls), model
        self.concurrency, self.timeout, self.retries = concurrency, timeout, retries

    def servers(self) -> list[Server]:
        """New connections to all of them, for one event loop."""
        key = key_from(self.role.key, COMMON_KEY)
        return [Server(url, key, self.timeout) for url in self.urls]

    def problem(self, failure: Failed, url: str) -> InputError:
        """The error about a failed request, in one sentence."""
        return self.role.problem(failure, url, self.model, self.timeout, self.retries)

    async def prepare(self, server: Server) -> None:
        """What must be done before a server is asked; raises `Failed`. Here nothing."""

    def ask_all(
        self,
        requests: Sequence[tuple[str, Reply]],
        read: Read[T],
        on_outcome: Callable[[int, T | Failed], bool],
    ) -> None:
        """Make all requests, each a path and a body.

        Raises an error about a request that failed too often, after all that can be answered were.

        Parameters
        ----------
        read
            Reads the reply to request i. If it raises `Failed`, the request is repeated.
        on_outcome
            Takes what `read` returned for request i, or why the server refuses that request; once for each request, as soon
            as it is there. If it returns True, no more requests are made; those under way are still waited for.
        """
        run(_Lot(self, requests, read, on_outcome).run())

    def ask_each(self, ask: Callable[[Server], Coroutine[Any, Any, T]]) -> list[T]:
        """What `ask` returns for every server, in order."""

        async def each() -> list[T]:
            servers = self.servers()
            try:
                return [await ask(server) for server in servers]
            finally:
                await asyncio.gather(*(server.close() for server in servers))

        return run(each())


class _Lot(Generic[T]):
    """All requests of one call, until the last is answered."""

    def __init__(
        self,
        fleet: Fleet,
        requests: Sequence[tuple[str, Reply]],
        read: Read[T],
        on_outcome: Callable[[int, T | Failed], bool],
    ) -> None:
        self._fleet, self._read, self._on_outcome = fleet, read, on_outcome
        self._waiting: asyncio.Queue[Job] = asyncio.Queue()
        for number, (path, body) in enumerate(requests):
            self._waiting.put_nowait(Job(number, path, body))
        self._left, self._under_way = len(requests), 0
        self._ended = asyncio.Event()
        self._stopping = False
        self._unanswered: tuple[Failed, str] | None = None

    async def run(self) -> None:
        self._servers = self._fleet.servers()
        workers = min(self._fleet.concurrency, self._left)
        # In turn, so that a few requests are spread over all servers.
        work = [self._work(server) for _ in range(workers) for server in self._servers]
        tasks: list[asyncio.Task[Any]] = [asyncio.create_task(one) for one in (self._ended.wait(), *work)]
        try:
            if self._left:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()  # a worker ends only by an error
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.gather(*(server.close() for server in self._servers))
        if self._unanswered:
            raise self._fleet.problem(*self._unanswered)

    async def _work(self, server: Server) -> None:
        while True:
            await server.ready()
            try:
                await self._fleet.prepare(server)
            except Failed as failure:
                self._give_up_without_servers(failure, server)
                continue
            job = await self._waiting.get()
            if self._stopping:
                continue
            self._under_way += 1
            try:
                outcome: T | Failed = self._read(job.number, await server.ask("POST", job.path, job.body))
            except Failed as failure:
                outcome = failure
            finally:
                self._under_way -= 1
            self._settle(server, job, outcome)

    def _settle(self, server: Server, job: Job, outcome: T | Failed) -> None:
        """Pass an outcome on, or arrange that the request is repeated."""
        if isinstance(outcome, Failed) and not outcome.refused:
            job.failures += 1
            self._give_up_without_servers(outcome, server)
            if job.failures <= self._fleet.retries and not self._stopping:
                pause = growing_pause(FIRST_PAUSE, LONGEST_PAUSE, job.failures - 1)
                asyncio.get_running_loop().call_later(pause, self._waiting.put_nowait, job)
                return
            self._unanswered = (outcome, server.url)
        elif self._on_outcome(job.number, outcome):
            self._stopping = True
        self._left -= 1
        self._end_if_done()

    def _give_up_without_servers(self, failure: Failed, server: Server) -> None:
        """Stop if no server has answered for long: the requests that wait would wait in vain."""
        if all(server.rests > self._fleet.retries for server in self._servers):
            self._stopping = True
            self._unanswered = (failure, server.url)
            self._end_if_done()

    def _end_if_done(self) -> None:
        if not self._left or (self._stopping and not self._under_way):
            self._ended.set()


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end, in a thread of its own if this one already runs an event loop, as notebooks do."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return run_async(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()
