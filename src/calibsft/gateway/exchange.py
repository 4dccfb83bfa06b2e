"""One request of a client and its reply, over ASGI: headers, a body within limits, whole replies and streams."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeVar
from uuid import uuid4

from calibsft.gateway.failures import Refusal

BODY_SECONDS = 30.0

T = TypeVar("T")
Message = dict[str, Any]
Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class ClientGone(Exception):
    """The client has closed its connection."""


class Exchange:
    """A request, and the way back to its client.

    Attributes
    ----------
    id : the request's id, for logs on both sides.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.id = uuid4().hex
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self._headers, self._receive, self._send = scope["headers"], receive, send

    def header(self, name: bytes) -> str:
        """The first header of this name, or an empty text."""
        return next((value.decode("latin-1") for found, value in self._headers if found == name), "")

    async def body(self, largest: int) -> bytes:
        """The body, refused as soon as it is known to be too large."""
        if self.header(b"content-type").partition(";")[0].strip().lower() != "application/json":
            raise Refusal(415, "send the body as content-type application/json", "unsupported_media_type")
        length = self.header(b"content-length")
        if length.isdigit() and int(length) > largest:
            raise _too_large(largest)
        try:
            async with asyncio.timeout(BODY_SECONDS):
                return await self._all_parts(largest)
        except TimeoutError:
            raise Refusal(408, "the body did not come in time; send it again", "timeout") from None

    async def _all_parts(self, largest: int) -> bytes:
        content, more = bytearray(), True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            content += message.get("body", b"")
            if len(content) > largest:
                raise _too_large(largest)
            more = message.get("more_body", False)
        return bytes(content)

    async def unless_gone(self, work: Awaitable[T]) -> T:
        """The result of `work`, which is cancelled when the client disconnects."""
        working, gone = asyncio.current_task(), False
        assert working is not None

        async def watch() -> None:
            nonlocal gone
            while (await self._receive())["type"] != "http.disconnect":
                pass
            gone = True
            working.cancel()

        watching = asyncio.create_task(watch())
        try:
            return await work
        except asyncio.CancelledError:
            if gone and working.uncancel() == 0:
                raise ClientGone from None
            raise
        finally:
            watching.cancel()

    async def reply(self, status: int, content: bytes, headers: Mapping[str, str]) -> None:
        """Send a whole reply."""
        await self._begin(status, {**headers, "content-length": str(len(content))})
        await self._send({"type": "http.response.body", "body": content})

    async def stream(self, chunks: AsyncIterator[bytes], headers: Mapping[str, str]) -> None:
        """Send a stream until it ends or the client disconnects."""

        async def pass_on() -> None:
            async for chunk in chunks:
                await self._send({"type": "http.response.body", "body": chunk, "more_body": True})

        await self._begin(200, headers)
        await self.unless_gone(pass_on())
        await self._send({"type": "http.response.body"})

    async def _begin(self, status: int, headers: Mapping[str, str]) -> None:
        lines = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": lines})


def _too_large(largest: int) -> Refusal:
    return Refusal(413, f"the body has more than {largest} bytes; send less", "too_large")
