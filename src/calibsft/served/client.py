"""The connection to one server, over aiohttp: requests, and replies piece by piece.

A connection is used again only if the last reply arrived to its end and nothing followed it, so no reply can be mistaken for
another. Does not support redirects, cookies or compression.
"""

import asyncio
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass
from weakref import WeakSet

from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector
from aiohttp.connector import Connection
from yarl import URL

from calibsft.errors import InputError
from calibsft.served.pauses import asked_pause

CONNECT_SECONDS = 10.0
# Many servers close an idle connection after five seconds, even if a request is on its way.
IDLE_SECONDS = 3.0
LOOK_SECONDS = 1.0


class Broken(Exception):
    """A connection that cannot be made, ends too early, or does not carry HTTP."""


class Client:
    """Asks one server, through the proxy that the environment names for it.

    Parameters
    ----------
    url : the start of the URL of every request.
    headers : sent with every request.
    """

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        scheme = urlsplit(url).scheme
        self._url, self._tls = url, ssl.create_default_context() if scheme == "https" else True
        # Not given to the session: it would show them to the proxy.
        self._headers = {"accept-encoding": "identity", **headers}
        self._way: dict[str, Any] = {}
        if (proxy := _proxy_for(url)) is not None:
            self._way["proxy"] = proxy.with_user(None)
            if scheme == "https":
                self._way["proxy_headers"] = _proxy_key(proxy)
            else:
                self._headers |= _proxy_key(proxy)
        self._session: ClientSession | None = None

    async def ask(
        self, method: str, path: str, body: bytes, more_headers: Mapping[str, str] | None = None
    ) -> "Reply":
        """The reply, as soon as its head is there. The caller must close it."""
        self._session = session = self._session or self._opened()
        headers = self._headers | ({"content-type": "application/json"} if body else {})
        headers |= more_headers or {}
        sent: dict[str, Any] = {"data": body or None, "headers": headers, **self._way}
        try:
            return Reply(await session.request(method, self._url + path, allow_redirects=False, **sent))
        except (ClientError, UnicodeError) as error:  # the latter for a name that no host can have
            raise Broken("no connection, or it ended or carries no HTTP") from error

    async def close(self) -> None:
        """End every connection."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _opened(self) -> ClientSession:
        return ClientSession(
            connector=Connections(limit=0, keepalive_timeout=IDLE_SECONDS, ssl=self._tls),
            timeout=ClientTimeout(total=None, connect=CONNECT_SECONDS),
            cookie_jar=DummyCookieJar(),
            auto_decompress=False,
            response_class=Response,
        )


class Reply:
    """The reply to one request, while it arrives.

    Attributes
    ----------
    headers : names in any case.
    """

    def __init__(self, response: ClientResponse) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers
        self._response = response

    async def pieces(self, patience: float | None = None) -> AsyncIterator[bytes]:
        """The content as it arrives; TimeoutError if nothing arrives for `patience` seconds."""
        while piece := await self._piece(patience):
            yield piece

    async def _piece(self, patience: float | None) -> bytes:
        try:
            async with asyncio.timeout(patience):
                while True:
                    # aiohttp closes a connection that carries no HTTP without waking its reader, so read again.
                    with suppress(TimeoutError):
                        async with asyncio.timeout(LOOK_SECONDS):
                            return await self._response.content.readany()
        except (ClientError, RuntimeError) as error:  # the latter if the connection is closed
            raise Broken("the connection ended or carries no HTTP") from error

    async def whole(self, largest: int, failure: Exception) -> bytes:
        """The content to its end, after which the reply is closed; raises `failure` if it has more than `largest` bytes."""
        content = bytearray()
        try:
            async for piece in self.pieces():
                content += piece
                if len(content) > largest:
                    raise failure
        finally:
            self.close()
        return bytes(content)

    def asked_pause(self, longest: float) -> float:
        """The pause in seconds that the server asks for, up to `longest`."""
        return asked_pause(self.headers.get("retry-after", ""), longest)

    def close(self) -> None:
        """End the connection, unless the whole reply is here."""
        self._response.close()


class Response(ClientResponse):
    """aiohttp's response, which ends its connection at once, even if the server does not read the request."""

    def close(self) -> None:
        if self.connection is not None and self.connection.transport is not None:
            self.connection.transport.abort()
        super().close()


class Connections(TCPConnector):
    """aiohttp's connections, except those on which something arrived between two requests."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._used: WeakSet[asyncio.BaseProtocol] = WeakSet()

    async def connect(self, *request: Any, **options: Any) -> Connection:
        while True:
            connection = await super().connect(*request, **options)
            protocol = connection.protocol
            assert protocol is not None
            if protocol not in self._used or not protocol.should_close:
                self._used.add(protocol)
                return connection
            connection.close()


def _proxy_for(url: str) -> URL | None:
    server = urlsplit(url)
    named = None if proxy_bypass(server.hostname or "") else getproxies().get(server.scheme)
    if not named:
        return None
    with suppress(ValueError):  # an invalid port or name
        proxy = URL(named if "://" in named else f"http://{named}")
        if proxy.scheme == "http" and (proxy.host or "").encode("idna"):
            return proxy
    variable = f"{server.scheme}_proxy"
    raise InputError(f"{variable} is not the address of a plain proxy; write http://host:port, or unset it")


def _proxy_key(proxy: URL) -> dict[str, str]:
    if proxy.user is None:
        return {}
    pair = f"{proxy.user}:{proxy.password or ''}"
    return {"proxy-authorization": f"Basic {b64encode(pair.encode()).decode()}"}
