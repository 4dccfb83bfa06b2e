"""One request of a client over ASGI: a body within limits, and work and streams that end when the client disconnects."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import ExitStack
from typing import TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from calibsft.gateway.failures import Refusal

log = logging.getLogger("calibsft.gateway")
T = TypeVar("T")


async def read_body(request: Request, largest: int, patience: float) -> bytes:
    """The body, refused once it is known to be too large or is not there within `patience` seconds."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Refusal(415, "send the body as content-type application/json", "unsupported_media_type")
    length, content = request.headers.get("content-length", ""), bytearray()
    too_large = Refusal(413, f"the body has more than {largest} bytes; send less", "too_large")
    if length.isdigit() and int(length) > largest:
        raise too_large
    try:
        async with asyncio.timeout(patience):
            async for part in request.stream():
                content += part
                if len(content) > largest:
                    raise too_large
    except TimeoutError:
        raise Refusal(408, "the body did not come in time; send it again", "timeout") from None
    return bytes(content)


async def unless_gone(receive: Receive, work: Awaitable[T]) -> T:
    """The result of `work`, which is cancelled when the client disconnects; then raises `ClientDisconnect`."""

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        limit.reschedule(0)

    try:
        # A time limit that expires when the client is gone. anyio's scopes never cancel work whose
        # next input is always there already.
        async with asyncio.timeout(None) as limit:
            watching = asyncio.create_task(watch())
            try:
                return await work
            finally:
                watching.cancel()
    except TimeoutError:
        if limit.expired():
            raise ClientDisconnect from None
        raise


class EventStream(StreamingResponse):
    """Server-sent events. Closes `held` after the last one, or when the client disconnects."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[bytes], headers: Mapping[str, str], held: ExitStack) -> None:
        super().__init__(events, headers={**headers, "cache-control": "no-cache"})
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._held:
            try:
                await unless_gone(receive, self.stream_response(send))
            except ClientDisconnect:
                log.info("client gone before the end of a stream")
