"""Limits on the connections of clients, so that none can hold up the others.

uvicorn bounds neither a request's line and headers - its time grows with the square of their length -
nor the time until they are there, and it waits forever for a client that does not read. The time for
a body is limited in `exchange`.
"""

import logging
import resource
from asyncio import TimerHandle, Transport
from socket import SO_LINGER, SOL_SOCKET
from struct import pack
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from calibsft.errors import InputError

LARGEST_HEAD = 1 << 20
# Connections beside those with requests under way, and files beside connections.
SPARE_CONNECTIONS, SPARE_FILES = 256, 64

log = logging.getLogger("calibsft.gateway")


class ClientConnection(HttpToolsProtocol):
    """uvicorn's HTTP protocol, which ends a connection that exceeds a limit.

    Attributes
    ----------
    patience : the most seconds until a head is complete, and in which a client takes nothing of what
        is sent.
    most : connections at the same time. One more ends another one that has no request under way.
    """

    patience: float
    most: int

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._unread = 0
        self._heard = self.loop.time()
        self._timers: dict[str, TimerHandle] = {}

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # Writing then pauses exactly while the client has not taken everything.
        transport.set_write_buffer_limits(high=0)
        self._expect_head()
        if len(self.connections) > self.most:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        for waited_for in tuple(self._timers):
            self._stop(waited_for)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unread += len(data)
        self._heard = self.loop.time()
        if self._idle:
            self._expect_head()
        super().data_received(data)
        if self._unread > LARGEST_HEAD and not self.transport.is_closing():
            self.send_400_response("Too long a head.")

    def on_headers_complete(self) -> None:
        self._unread = 0
        self._stop("head")
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        super().on_body(body)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect_taking()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop("taking")

    @property
    def _idle(self) -> bool:
        """Whether no request is under way; the next one may be arriving."""
        return self.cycle is None or self.cycle.response_complete

    def _expect_head(self) -> None:
        if "head" not in self._timers:
            self._timers["head"] = self.loop.call_later(self.patience, self.transport.abort)

    def _expect_taking(self) -> None:
        left = self.transport.get_write_buffer_size()
        self._timers["taking"] = self.loop.call_later(self.patience, self._end_unless_taken, left)

    def _stop(self, waited_for: str) -> None:
        if waited_for in self._timers:
            self._timers.pop(waited_for).cancel()

    def _end_unless_taken(self, before: int) -> None:
        if self.transport.get_write_buffer_size() < before:
            self._expect_taking()
        else:
            log.info("a client took nothing for %g seconds and is cut off", self.patience)
            # Else the system would keep megabytes for it, and try to send them for minutes.
            self.transport.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, pack("ii", 1, 0))
            self.transport.abort()

    def _make_room(self) -> None:
        """End the connection that is idle longest, or this one if none is.

        Those that never asked anything come first.
        """
        alive = [
            one
            for one in self.connections
            if isinstance(one, ClientConnection) and not one.transport.is_closing()
        ]
        if len(alive) > self.most:
            idle = (one for one in alive if one is not self and one._idle)
            min(idle, key=lambda one: (one.cycle is not None, one._heard), default=self).transport.abort()


def limited(patience: float, most: int) -> type[ClientConnection]:
    """The protocol with these limits; uvicorn makes its instances."""
    return type("LimitedConnection", (ClientConnection,), {"patience": patience, "most": most})


def most_connections(concurrency: int, queue: int) -> int:
    """How many clients may be connected; asks the system for as many open files as that needs."""
    # A question under way needs a connection to each server.
    others, wanted = 2 * concurrency + SPARE_FILES, concurrency + queue + SPARE_CONNECTIONS
    files, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most_files != resource.RLIM_INFINITY:
        wanted = min(wanted, most_files - others)
    too_many = InputError(
        f"--concurrency {concurrency} needs more open files than the system allows; lower it, or raise that"
        " limit with ulimit -n"
    )
    if wanted <= concurrency:
        raise too_many
    if files != resource.RLIM_INFINITY and files < wanted + others:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted + others, most_files))
        except (ValueError, OSError):  # macOS names no limit, and has one
            raise too_many from None
    return wanted
