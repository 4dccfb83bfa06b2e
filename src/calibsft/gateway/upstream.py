"""A server behind the gateway: requests with time limits, retries with growing pauses, and failures in one sentence.

What is retried is what may go better the next time: a connection that breaks, a server that is busy or fails. A request
that took too long is not, since the next one would too. Redirects are not followed. The key goes to its own server alone; no
failure repeats it, nor what a server says when it refuses it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from random import random
from typing import Any, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from calibsft.endpoint import NO_KEY, quoted
from calibsft.gateway.failures import UpstreamFailure
from calibsft.gateway.replies import DONE, ends_text, error_in, is_error, json_of, text_of

BUSY = frozenset({408, 425, 429, 500, 502, 503, 504})
# The request itself is at fault, whoever asks it.
REFUSED = frozenset({400, 413, 415, 422})
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 8.0
CONNECT_SECONDS = 10.0
# Less than the five seconds after which many servers close an idle connection, be it on a request that is just coming.
IDLE_SECONDS = 3.0
LARGEST_REPLY = 16 << 20

T = TypeVar("T")


class Upstream:
    """One OpenAI-compatible server.

    Parameters
    ----------
    name
        In messages and metrics: "local" or "strong".
    url
        Where the API begins, usually ending in /v1.
    model
        The model's name there; None: the only one that the server lists.
    key
        Its API key, or `NO_KEY`.
    timeout
        Seconds that one request may take, and a stream from one piece to the next.
    retries
        How often a request is repeated.
    on_retry
        Told of every repetition.
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
        self.name = name
        self._url, self._model, self._key = url.rstrip("/"), model, key
        self._timeout, self._retries, self._on_retry = timeout, retries, on_retry
        connect = min(timeout, CONNECT_SECONDS)
        self._whole_limit = aiohttp.ClientTimeout(total=timeout, sock_connect=connect)
        # A stream may take as long as it likes from its beginning to its end.
        self._piece_limit = aiohttp.ClientTimeout(total=None, sock_connect=connect, sock_read=timeout)
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def model(self) -> str:
        """The name under which the server knows its model."""
        if self._model is None:
            self._model = await self._retried(self._only_model)
        return self._model

    async def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        """A whole completion, whose first choice has a text."""
        reply = await self._retried(lambda: self._json("POST", "/chat/completions", body))
        if text_of(reply) is None:
            raise self._wrong_reply()
        return reply

    @asynccontextmanager
    async def stream(self, body: dict[str, Any]) -> AsyncIterator[AsyncIterator[str]]:
        """The chunks of a stream, as text; retried only before it begins."""
        response = await self._retried(lambda: self._opened("POST", "/chat/completions", body, total=False))
        try:
            if "text/event-stream" not in response.headers.get("content-type", ""):
                raise self._wrong_reply()
            yield self._chunks(response)
        finally:
            response.release()

    async def _chunks(self, response: aiohttp.ClientResponse) -> AsyncIterator[str]:
        ended = False
        try:
            async for line in self._lines(response):
                data = line.removeprefix("data:").strip()
                if data == line.strip() or not data:
                    continue  # a comment, a name, or the line between two events
                if data == DONE:
                    return
                chunk = json_of(data)
                if not isinstance(chunk, dict) or is_error(chunk):
                    raise self._stopped()
                ended = ended or ends_text(chunk)
                yield data
        except TimeoutError:
            raise self._too_slow() from None
        except aiohttp.ClientError:
            raise self._stopped() from None
        if not ended:  # some servers leave out the end mark
            raise self._stopped()

    async def _lines(self, response: aiohttp.ClientResponse) -> AsyncIterator[str]:
        """The lines as they come, however they end; there may be any number of them."""
        rest = b""
        async for part in response.content.iter_any():
            *lines, rest = (rest + part).replace(b"\r", b"\n").split(b"\n")
            for line in lines:
                yield line.decode("utf-8", "replace")
            self._bear(response, len(rest))
        yield rest.decode("utf-8", "replace")

    async def _only_model(self) -> str:
        listed = (await self._json("GET", "/models", None)).get("data")
        match listed:
            case [{"id": str(name)}]:
                return name
        message = f"the {self.name} model's server does not list one model; start the gateway with --{self.name}-model"
        raise UpstreamFailure(502, message, "model")

    async def _json(self, method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        response = await self._opened(method, path, body)
        try:
            reply = json_of(await self._whole(response))
        finally:
            response.release()
        if not isinstance(reply, dict):
            raise self._wrong_reply()
        return reply

    async def _whole(self, response: aiohttp.ClientResponse) -> bytes:
        content = bytearray()
        async for part in response.content.iter_any():
            content += part
            self._bear(response, len(content))
        return bytes(content)

    def _bear(self, response: aiohttp.ClientResponse, size: int) -> None:
        """Give up a reply that fills the memory."""
        if size > LARGEST_REPLY:
            response.close()
            raise self._wrong_reply()

    async def _opened(
        self, method: str, path: str, body: dict[str, Any] | None, total: bool = True
    ) -> aiohttp.ClientResponse:
        """A reply whose status is good; its content is still to be read."""
        if self._session is None:  # a session belongs to a running loop
            self._session = self._new_session()
        limits = self._whole_limit if total else self._piece_limit
        response = await self._session.request(
            method, self._url + path, json=body, allow_redirects=False, timeout=limits
        )
        if response.status == 200:
            return response
        try:
            content = await self._whole(response)
        finally:
            response.release()
        raise self._refused(response, content)

    def _new_session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            headers={"authorization": f"Bearer {self._key}"} if self._key != NO_KEY else {},
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            # Trusting the environment for all of it would look for a password file in a thread at every request.
            proxy=_proxy_for(self._url),
        )

    async def _retried(self, ask: Callable[[], Awaitable[T]]) -> T:
        for attempt in count():
            try:
                return await ask()
            except (aiohttp.ClientError, TimeoutError) as error:
                failure = self._broken(error)
            except UpstreamFailure as found:
                failure = found
            if attempt == self._retries or failure.pause is None:
                raise failure
            self._on_retry(self.name)
            # Half of the pause is random, so that requests that failed together do not come back together.
            grown = min(LONGEST_PAUSE, FIRST_PAUSE * 2**attempt) * (0.5 + random() / 2)
            await asyncio.sleep(max(failure.pause, grown))
        raise AssertionError("unreachable")

    def _broken(self, error: Exception) -> UpstreamFailure:
        if isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ConnectionTimeoutError):
            return self._too_slow()
        return UpstreamFailure(
            502, f"the {self.name} model's server cannot be reached; try again", "unreachable", 0
        )

    def _stopped(self) -> UpstreamFailure:
        return UpstreamFailure(
            502, f"the {self.name} model's server stopped in the middle; try again", "broken"
        )

    def _too_slow(self) -> UpstreamFailure:
        message = f"the {self.name} model took more than {self._timeout:g} seconds; try again or ask for fewer tokens"
        return UpstreamFailure(504, message, "timeout")

    def _wrong_reply(self) -> UpstreamFailure:
        message = (
            f"the {self.name} model's server does not reply with chat completions; correct --{self.name}"
        )
        return UpstreamFailure(502, message, "reply")

    def _refused(self, response: aiohttp.ClientResponse, content: bytes) -> UpstreamFailure:
        """The failure that a status stands for; what a server says is passed on where the request is at fault."""
        status, who = response.status, f"the {self.name} model's server"
        if status in BUSY:
            message = f"{who} is busy or fails ({status}); try again"
            return UpstreamFailure(
                503 if status in (429, 503) else 502, message, "busy", _asked_pause(response)
            )
        if status in REFUSED:
            said = quoted(error_in(json_of(content)), self._key)
            return UpstreamFailure(400, f"{who} refuses the request ({status}{said}); change it", "refused")
        if status in (401, 403):
            return UpstreamFailure(502, f"{who} refuses the gateway's API key ({status}); set it anew", "key")
        return UpstreamFailure(502, f"{who} answers {status}; correct --{self.name} or its model", "reply")


def _proxy_for(url: str) -> str | None:
    """The proxy that the environment names for this server."""
    parts = urlsplit(url)
    return None if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme)


def _asked_pause(response: aiohttp.ClientResponse) -> float:
    """The seconds for which a server asks, as far as that is bearable."""
    asked = response.headers.get("retry-after", "")
    return min(float(asked), LONGEST_PAUSE) if asked.isascii() and asked.isdigit() else 0.0
