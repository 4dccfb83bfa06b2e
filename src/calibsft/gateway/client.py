"""A minimal HTTP/1.1 client for one server, over connections that stay open.

Every request passes through here, and a general client would take several times the processor time. A connection carries one
request at a time. It is used again only if the last reply was read to its end and nothing followed it, so no reply can be
mistaken for another. Does not support redirects, cookies or compression.
"""

import asyncio
import ssl
from base64 import b64encode
from collections import deque
from collections.abc import AsyncIterator, Mapping
from time import monotonic
from typing import cast
from urllib.parse import SplitResult, quote, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from calibsft.errors import InputError

CONNECT_SECONDS = 10.0
# Many servers close an idle connection after five seconds, even if a request is on its way.
IDLE_SECONDS = 3.0
# The most bytes of a reply in a row that are not content.
LONGEST_HEAD = 1 << 16
# The most unread bytes of a reply; then the server has to wait.
MOST_UNREAD = 1 << 18
PORTS = {"http": 80, "https": 443}
KEPT_IN_PATHS = "/%:@!$&'()*+,;=~"


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
        self._server = urlsplit(url)
        self._tls = ssl.create_default_context() if self._server.scheme == "https" else None
        self._proxy = _proxy_for(self._server)
        self._path = quote(self._server.path, KEPT_IN_PATHS)
        if self._proxy is not None and self._tls is None:
            self._path = f"http://{_authority(self._server)}{self._path}"
            headers = {**headers, **_proxy_key(self._proxy)}
        self._headers = _lines({"host": _authority(self._server), "accept-encoding": "identity", **headers})
        self._idle: list[tuple[Connection, float]] = []

    async def ask(self, method: str, path: str, body: bytes) -> "Reply":
        """The reply, as soon as its head is there. The caller must close it."""
        connection = self._idle_connection() or await self._connect()
        lines = (
            _lines({"content-type": "application/json", "content-length": str(len(body))}) if body else b""
        )
        start = f"{method} {self._path}{path} HTTP/1.1\r\n".encode()
        reply = connection.send(b"".join((start, self._headers, lines, b"\r\n", body)))
        try:
            await reply.begun()
        except BaseException:
            reply.close()
            raise
        return reply

    def close(self) -> None:
        while self._idle:
            self._idle.pop()[0].close()

    def keep(self, connection: "Connection") -> None:
        """Keep a connection for another request."""
        self._idle.append((connection, monotonic()))

    def _idle_connection(self) -> "Connection | None":
        while self._idle:
            connection, since = self._idle.pop()
            if connection.open and monotonic() - since < IDLE_SECONDS:
                return connection
            connection.close()
        return None

    async def _connect(self) -> "Connection":
        next_hop = self._proxy or self._server
        tls = self._tls if self._proxy is None else None
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: Connection(self), *_address(next_hop), ssl=tls
                )
                if self._proxy is not None and self._tls is not None:
                    await self._tunnel(connection, self._proxy, self._tls)
        except OSError as error:  # includes TimeoutError
            raise Broken("no connection") from error
        return connection

    async def _tunnel(self, connection: "Connection", proxy: SplitResult, tls: ssl.SSLContext) -> None:
        """Open a tunnel to the server through the proxy, and encrypt it for the server alone."""
        host, port = _address(self._server)
        authority = f"{f'[{host}]' if ':' in host else host}:{port}"
        lines = _lines({"host": authority, **_proxy_key(proxy)})
        reply = connection.send(f"CONNECT {authority} HTTP/1.1\r\n".encode() + lines + b"\r\n")
        try:
            await reply.begun()
            if reply.status != 200:
                raise Broken("the proxy refuses")
            await connection.secure(tls, host)
        except BaseException:
            connection.close()
            raise


class Connection(asyncio.Protocol):
    """One connection, with at most one request at a time."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._transport: asyncio.Transport
        self._reply: Reply | None = None
        self.open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, self.open = cast(asyncio.Transport, transport), True

    def data_received(self, data: bytes) -> None:
        if self._reply is None:
            self.close()  # data without a request
        else:
            self._reply.receive(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.open = False
        if self._reply is not None:
            self._reply.ended()

    def send(self, request: bytes) -> "Reply":
        self._reply = Reply(self)
        self._transport.write(request)
        return self._reply

    async def secure(self, tls: ssl.SSLContext, host: str) -> None:
        """Encrypt from now on, and check that the other side is `host`."""
        self._reply = None
        loop = asyncio.get_running_loop()
        transport = await loop.start_tls(self._transport, self, tls, server_hostname=host)
        if transport is None:
            raise Broken("the connection ended")
        self._transport = transport

    def listen(self, willing: bool) -> None:
        """Read on, or let the server wait."""
        if self.open:
            (self._transport.resume_reading if willing else self._transport.pause_reading)()

    def keep(self) -> None:
        """Return to the client, ready for another request."""
        self._reply = None
        self.listen(True)  # reading may be paused since the last reply
        self._client.keep(self)

    def close(self) -> None:
        self.open = False
        self._transport.abort()


class Reply:
    """The reply to one request, while it arrives.

    Attributes
    ----------
    headers : by name in lower case.
    """

    def __init__(self, connection: Connection) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self._connection = connection
        self._parser = HttpResponseParser(self)
        self._has_begun = self._complete = self._broken = self._keep = False
        self._unread: deque[bytes] = deque()
        self._unread_size = self._head_size = 0
        self._news: asyncio.Future[None] | None = None

    async def begun(self) -> None:
        """Wait for the head."""
        while not self._has_begun:
            await self._more()

    async def pieces(self, patience: float | None = None) -> AsyncIterator[bytes]:
        """The content as it arrives; TimeoutError if nothing arrives for `patience` seconds."""
        while True:
            while self._unread:
                piece = self._unread.popleft()
                self._unread_size -= len(piece)
                yield piece
            if self._complete:
                return
            self._connection.listen(True)
            if patience is None:
                await self._more()
            else:
                async with asyncio.timeout(patience):
                    await self._more()

    def close(self) -> None:
        """Return the connection if it can be used again, else close it."""
        if self._complete and self._keep and not self._broken and self._connection.open:
            self._connection.keep()
        else:
            self._connection.close()

    def receive(self, data: bytes) -> None:
        """Take data from the connection."""
        self._head_size += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            self._broken = True
        if self._head_size > LONGEST_HEAD:
            self._broken = True
        if self._unread_size > MOST_UNREAD:
            self._connection.listen(False)
        self._wake()

    def ended(self) -> None:
        """The connection has ended. That completes a content of unknown length, and breaks any other unfinished reply."""
        length_known = "content-length" in self.headers or "transfer-encoding" in self.headers
        self._complete = self._complete or (self._has_begun and not self._broken and not length_known)
        self._broken = self._broken or not self._complete
        self._wake()

    async def _more(self) -> None:
        if self._broken:
            raise Broken("the connection ended or carries no HTTP")
        self._news = asyncio.get_running_loop().create_future()
        await self._news

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    # Callbacks of the parser.

    def on_message_begin(self) -> None:
        if self._complete:
            raise ValueError("a second reply to one request")

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._has_begun:  # headers after the content are ignored
            self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:  # an interim reply; the final one has its own head
            self.headers = {}
            return
        self.status, self._has_begun, self._head_size = status, True, 0

    def on_body(self, piece: bytes) -> None:
        self._unread.append(piece)
        self._unread_size += len(piece)
        self._head_size = 0

    def on_message_complete(self) -> None:
        if self._has_begun:
            self._complete, self._keep = True, self._parser.should_keep_alive()


def _proxy_for(server: SplitResult) -> SplitResult | None:
    named = None if proxy_bypass(server.hostname or "") else getproxies().get(server.scheme)
    if not named:
        return None
    proxy = urlsplit(named if "://" in named else f"http://{named}")
    try:
        usable = proxy.scheme == "http" and bool(_address(proxy)[0])
    except ValueError:  # an invalid port or name
        usable = False
    if not usable:
        variable = f"{server.scheme}_proxy"
        raise InputError(
            f"{variable} is not the address of a plain proxy; write http://host:port, or unset it"
        )
    return proxy


def _proxy_key(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"proxy-authorization": f"Basic {b64encode(pair.encode()).decode()}"}


def _address(server: SplitResult) -> tuple[str, int]:
    host = (server.hostname or "").encode("idna").decode()
    return host, server.port or PORTS[server.scheme]


def _authority(server: SplitResult) -> str:
    host, _ = _address(server)
    named = f"[{host}]" if ":" in host else host
    return named if server.port is None else f"{named}:{server.port}"


def _lines(headers: Mapping[str, str]) -> bytes:
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("latin-1")
