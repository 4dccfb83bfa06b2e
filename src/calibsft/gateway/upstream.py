"""A server behind the gateway: requests with time limits, retries with growing pauses, and failures in one sentence.

Retries broken connections and servers that are busy or fail, but not a request that took too long: the next one would too.
Does not follow redirects. The key goes only to its own server. No failure shows the key, or the server's text when it refuses
the key.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import ExitStack
from itertools import count
from math import ceil
from types import MappingProxyType
from typing import Any, TypeVar

from calibsft.gateway.failures import UpstreamFailure
from calibsft.gateway.replies import DONE, Chunk, ends_text, json_of, text_of
from calibsft.gateway.strict_json import write_json
from calibsft.served.client import Broken, Client
from calibsft.served.client import Reply as Received
from calibsft.served.keys import NO_KEY, quoted
from calibsft.served.pauses import growing_pause
from calibsft.served.server import BUSY, REFUSED, error_in

FIRST_PAUSE, LONGEST_PAUSE = 0.25, 8.0
# The longest pause that a client is asked to make.
LONGEST_ADVICE = 3600.0
LARGEST_REPLY = 16 << 20
CHAT = "/chat/completions"

T = TypeVar("T")
Headers = Mapping[str, str]
NONE: Headers = MappingProxyType({})


class Upstream:
    """One OpenAI-compatible server.

    Parameters
    ----------
    name : "local" or "strong", for messages and metrics.
    url : the base URL of the API, usually ending in /v1.
    model : the model's name on the server; None for the only one that it lists.
    key : its API key, or `NO_KEY`.
    timeout : the most seconds of one request, and between two pieces of a stream.
    retries : the most repetitions of a request.
    on_retry : called with `name` at every repetition.
    """

    def __init__(
        self,
        name: str,
        url: str,
        model: str | None,
        key: str,
        timeout: float,
        retries: int,
        on_retry: Callable[[str], None] = lambda name: None,
    ) -> None:
        self.name, self.url, self._who = name, url, f"the {name} model's server"
        self._model, self._key = model, key
        self._timeout, self._retries, self._on_retry = timeout, retries, on_retry
        self._client = Client(url.rstrip("/"), {"authorization": f"Bearer {key}"} if key != NO_KEY else {})

    async def close(self) -> None:
        await self._client.close()

    async def model(self) -> str:
        """The model's name on the server."""
        if self._model is None:
            self._model = await self._retried(self._only_model)
        return self._model

    async def complete(self, body: dict[str, Any], headers: Headers = NONE) -> dict[str, Any]:
        """A whole completion; its first choice has a text."""
        content = write_json(body)
        reply = await self._retried(lambda: self._json("POST", CHAT, content, headers))
        if text_of(reply) is None:
            raise self._wrong_reply()
        return reply

    async def stream(
        self, body: dict[str, Any], held: ExitStack, headers: Headers = NONE
    ) -> AsyncIterator[Chunk]:
        """The chunks of a stream. Retried only before it begins; closed with `held`."""
        content = write_json(body)
        reply = await self._retried(lambda: self._opened("POST", CHAT, content, headers))
        held.callback(reply.close)
        if "text/event-stream" not in reply.headers.get("content-type", ""):
            raise self._wrong_reply()
        return self._chunks(reply)

    async def _chunks(self, reply: Received) -> AsyncIterator[Chunk]:
        ended = False
        try:
            async for line in self._lines(reply):
                data = line.removeprefix("data:").strip()
                if data == line.strip() or not data:
                    continue  # a comment, an event's name, or an empty line
                if data == DONE:
                    return
                chunk = json_of(data)
                if not isinstance(chunk, dict) or chunk.get("error") is not None:
                    raise self._stopped()
                ended = ended or ends_text(chunk)
                yield Chunk(data, chunk)
        except TimeoutError:
            raise self._too_slow() from None
        except Broken:
            raise self._stopped() from None
        if not ended:  # some servers omit [DONE]
            raise self._stopped()

    async def _lines(self, reply: Received) -> AsyncIterator[str]:
        """The lines as they arrive, with any line ending. Their number and the total time are not limited."""
        rest = bytearray()  # grows in place: a line may come in very many pieces
        async for piece in reply.pieces(patience=self._timeout):
            end, *lines = piece.replace(b"\r", b"\n").split(b"\n")
            rest += end
            for line in lines:
                yield rest.decode("utf-8", "replace")
                rest = bytearray(line)
            if len(rest) > LARGEST_REPLY:
                raise self._wrong_reply()
        yield rest.decode("utf-8", "replace")

    async def _only_model(self) -> str:
        match await self._json("GET", "/models", b"", NONE):
            case {"data": [{"id": str(name)}]}:
                return name
        message = f"{self._who} does not list one model; start the gateway with --{self.name}-model"
        raise UpstreamFailure(502, message, "model")

    async def _json(self, method: str, path: str, body: bytes, headers: Headers) -> dict[str, Any]:
        received = await self._opened(method, path, body, headers)
        reply = json_of(await received.whole(LARGEST_REPLY, self._wrong_reply()))
        if not isinstance(reply, dict):
            raise self._wrong_reply()
        return reply

    async def _opened(self, method: str, path: str, body: bytes, headers: Headers) -> Received:
        """A reply with status 200; its content is not yet read."""
        reply = await self._client.ask(method, path, body, headers)
        if reply.status != 200:
            raise self._refused(reply, await reply.whole(LARGEST_REPLY, self._wrong_reply()))
        return reply

    async def _retried(self, ask: Callable[[], Awaitable[T]]) -> T:
        for attempt in count():
            try:
                async with asyncio.timeout(self._timeout):
                    return await ask()
            except TimeoutError:
                failure = self._too_slow()
            except Broken:
                failure = UpstreamFailure(502, f"{self._who} cannot be reached; try again", "unreachable", 0)
            except UpstreamFailure as found:
                failure = found
            if attempt == self._retries or failure.pause is None:
                raise failure
            self._on_retry(self.name)
            await asyncio.sleep(max(failure.pause, growing_pause(FIRST_PAUSE, LONGEST_PAUSE, attempt)))
        raise AssertionError("unreachable")

    def _stopped(self) -> UpstreamFailure:
        return UpstreamFailure(502, f"{self._who} stopped in the middle; try again", "broken")

    def _too_slow(self) -> UpstreamFailure:
        message = f"the {self.name} model took more than {self._timeout:g} seconds; try again or ask for fewer tokens"
        return UpstreamFailure(504, message, "timeout")

    def _wrong_reply(self) -> UpstreamFailure:
        message = f"{self._who} does not reply with chat completions; correct --{self.name}"
        return UpstreamFailure(502, message, "reply")

    def _refused(self, reply: Received, content: bytes) -> UpstreamFailure:
        """The failure for a status. It quotes the server only if the request is wrong."""
        status, who = reply.status, self._who
        if status in BUSY:
            message = f"{who} is busy or fails ({status}); try again"
            advice = ceil(reply.asked_pause(LONGEST_ADVICE))
            headers = {"retry-after": str(advice)} if advice else {}
            pause = reply.asked_pause(LONGEST_PAUSE)
            return UpstreamFailure(503 if status in (429, 503) else 502, message, "busy", pause, headers)
        if status in REFUSED:
            quote = quoted(error_in(json_of(content)), self._key)
            return UpstreamFailure(400, f"{who} refuses the request ({status}{quote}); change it", "refused")
        if status in (401, 403):
            message = f"{who} refuses the gateway's API key ({status}); set it again"
            return UpstreamFailure(502, message, "key")
        return UpstreamFailure(502, f"{who} answers {status}; correct --{self.name} or its model", "reply")
