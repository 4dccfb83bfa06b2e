"""The HTTP client over real sockets, against servers that send what they like: framing, reuse of connections, proxies, TLS."""

import asyncio
import os
import shutil
import ssl
import subprocess
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import uvloop

from calibsft.errors import InputError
from calibsft.served import client as client_module
from calibsft.served.client import Broken, Client

PATIENCE = 30.0
OK = b"HTTP/1.1 200 OK\r\n"
Script = Callable[[int, asyncio.StreamWriter], Awaitable[None]]
Run = Callable[[Coroutine[Any, Any, Any]], Any]
pytestmark = pytest.mark.timeout(120)


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Run:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)

    def limited(work: Coroutine[Any, Any, Any]) -> Any:
        return request.param(asyncio.wait_for(work, PATIENCE))

    return limited


@dataclass
class Server:
    """Where it is, every request as (number of its connection, head, body), and how many connections have ended."""

    url: str
    asked: list[tuple[int, bytes, bytes]] = field(default_factory=list)
    ended: int = 0

    @property
    def connections(self) -> list[int]:
        return [connection for connection, _, _ in self.asked]


@asynccontextmanager
async def server(script: Script, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    """A server that reads requests and lets `script` write to each, told how many there were before."""
    found = Server("")
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        number = connections
        connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
                body = await reader.readexactly(int(length[0].split(b":")[1])) if length else b""
                found.asked.append((number, head, body))
                await script(len(found.asked) - 1, writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            found.ended += 1
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    port = listening.sockets[0].getsockname()[1]
    found.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}/v1"
    try:
        yield found
    finally:
        listening.close()


def sends(*replies: bytes) -> Script:
    """Each of them once, the last one from then on."""

    async def script(before: int, writer: asyncio.StreamWriter) -> None:
        writer.write(replies[min(before, len(replies) - 1)])

    return script


def whole(content: bytes, *lines: bytes) -> bytes:
    return (
        OK
        + b"".join(line + b"\r\n" for line in lines)
        + b"content-length: %d\r\n\r\n" % len(content)
        + content
    )


async def ask(client: Client, body: bytes = b"{}") -> bytes:
    reply = await client.ask("POST", "/chat", body)
    try:
        return b"".join([piece async for piece in reply.pieces()])
    finally:
        reply.close()


@asynccontextmanager
async def client_of(url: str, headers: Mapping[str, str] | None = None) -> AsyncIterator[Client]:
    client = Client(url, headers or {})
    try:
        yield client
    finally:
        await client.close()


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.005)


def lines(head: bytes) -> tuple[str, dict[str, str]]:
    """The first line of a head, and its headers by name in lower case; none comes twice."""
    first, *others = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    pairs = [line.split(": ", 1) for line in others]
    headers = {name.lower(): value for name, value in pairs}
    assert len(headers) == len(pairs)
    return first, headers


def test_a_request_is_one_of_http(run: Run) -> None:
    async def work() -> None:
        async with (
            server(sends(whole(b"said"))) as found,
            client_of(found.url, {"authorization": "Bearer x"}) as client,
        ):
            assert await ask(client, b'{"a": 1}') == b"said"
            reply = await client.ask("GET", "/models", b"")
            reply.close()
        (_, first, body), (_, second, nothing) = found.asked
        common = {
            "host": found.url.removeprefix("http://").removesuffix("/v1"),
            "accept-encoding": "identity",
            "authorization": "Bearer x",
        }
        start, headers = lines(first)
        assert (start, body) == ("POST /v1/chat HTTP/1.1", b'{"a": 1}')
        expected = {**common, "content-type": "application/json", "content-length": "8"}
        assert headers.items() >= expected.items()
        start, headers = lines(second)
        assert (start, nothing) == ("GET /v1/models HTTP/1.1", b"")
        assert headers.items() >= common.items() and "content-type" not in headers
        assert not {"cookie", "transfer-encoding", "expect", "upgrade"} & {*lines(first)[1], *headers}

    run(work())


@pytest.mark.parametrize(
    "path, sent",
    [("", "/chat"), ("/a b", "/a%20b/chat"), ("/%2F/ü", "/%2F/%C3%BC/chat"), ("/a\r\nx: y", "/ax:%20y/chat")],
)
def test_a_path_stays_within_its_line(run: Run, path: str, sent: str) -> None:
    async def work() -> None:
        async with (
            server(sends(whole(b""))) as found,
            client_of(found.url.removesuffix("/v1") + path) as client,
        ):
            await ask(client)
        start, headers = lines(found.asked[0][1])
        assert start == f"POST {sent} HTTP/1.1" and headers["host"].startswith("127.0.0.1:")
        assert "x" not in headers

    run(work())


@pytest.mark.parametrize(
    "url, host",
    [
        ("http://a.example/v1", "a.example"),
        ("http://a.example:81/v1", "a.example:81"),
        ("http://[::1]:81/v1", "[::1]:81"),
        ("http://bücher.example/v1", "xn--bcher-kva.example"),
    ],
)
def test_the_host_is_named_as_the_url_has_it(
    run: Run, monkeypatch: pytest.MonkeyPatch, url: str, host: str
) -> None:
    async def work() -> None:
        async with server(sends(whole(b""))) as found:
            monkeypatch.setenv("http_proxy", found.url)  # which any host goes to
            async with client_of(url) as client:
                await ask(client)
        start, headers = lines(found.asked[0][1])
        assert (start, headers["host"]) == (f"POST http://{host}/v1/chat HTTP/1.1", host)

    run(work())


# Replies of every form


@pytest.mark.parametrize(
    "reply, content",
    [
        (whole(b"said"), b"said"),
        (whole(b""), b""),
        (OK + b"transfer-encoding: chunked\r\n\r\n2\r\nsa\r\n2;x=y\r\nid\r\n0\r\n\r\n", b"said"),
        (OK + b"transfer-encoding: chunked\r\n\r\n4\r\nsaid\r\n0\r\ncontent-type: z\r\n\r\n", b"said"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + whole(b"said"), b"said"),
        (b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" * 3 + whole(b"said"), b"said"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_a_reply_is_read_in_any_form_and_piece_by_piece(
    run: Run, reply: bytes, content: bytes, size: int
) -> None:
    async def slowly(before: int, writer: asyncio.StreamWriter) -> None:
        for start in range(0, len(reply), size):
            writer.write(reply[start : start + size])
            await writer.drain()
            await asyncio.sleep(0)

    async def work() -> None:
        async with server(slowly) as found, client_of(found.url) as client:
            assert [await ask(client), await ask(client)] == [content] * 2
        assert found.connections == [0, 0]

    run(work())


def test_headers_are_those_of_the_reply_itself(run: Run) -> None:
    hints = b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"
    reply = (
        OK + b"Content-Type: A\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\ncontent-type: z\r\n\r\n"
    )

    async def work() -> None:
        async with server(sends(hints + reply)) as found, client_of(found.url) as client:
            received = await client.ask("GET", "/", b"")
            assert [piece async for piece in received.pieces()] == [b"x"]
            assert received.status == 200 and received.headers.get("content-type") == "A"
            assert {name.lower() for name in received.headers} == {"content-type", "transfer-encoding"}
            received.close()

    run(work())


def test_a_content_of_unknown_length_ends_with_the_connection(run: Run) -> None:
    async def script(before: int, writer: asyncio.StreamWriter) -> None:
        writer.write(OK + b"\r\nsaid")
        writer.close()

    async def work() -> None:
        async with server(script) as found, client_of(found.url) as client:
            assert [await ask(client), await ask(client)] == [b"said"] * 2
        assert found.connections == [0, 1]

    run(work())


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"HTTP/1.1 2",
        OK,
        OK + b"content-length: 5\r\n\r\nsaid",
        OK + b"content-length: 5\r\nconnection: close\r\n\r\nsaid",
        OK + b"transfer-encoding: chunked\r\n\r\n4\r\nsaid\r\n",
        OK + b"transfer-encoding: chunked\r\n\r\n4\r\nsaid\r\n0\r\n",
        OK + b"content-length: 4\r\ncontent-length: 5\r\n\r\nsaid",
        OK + b"content-length: 4\r\ntransfer-encoding: chunked\r\n\r\nsaid",
        OK + b"content-length: x\r\n\r\nsaid",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"\0\1\2\r\n\r\n",
        b"SSH-2.0-x\r\n",
    ],
)
def test_a_reply_that_ends_early_or_is_none_is_broken(run: Run, reply: bytes) -> None:
    async def script(before: int, writer: asyncio.StreamWriter) -> None:
        writer.write(reply)
        writer.close()

    async def work() -> None:
        async with server(script) as found, client_of(found.url) as client:
            with pytest.raises(Broken):
                await ask(client)

    run(work())


@pytest.mark.parametrize("rest", [b"zz\r\n", b"4\r\nmoreXX", b"-1\r\nx"])
def test_a_content_that_stops_being_http_is_broken(run: Run, rest: bytes) -> None:
    async def script(before: int, writer: asyncio.StreamWriter) -> None:
        writer.write(OK + b"transfer-encoding: chunked\r\n\r\n4\r\nsaid\r\n")
        await read.wait()
        writer.write(rest)

    read = asyncio.Event()

    async def work() -> None:
        async with server(script) as found, client_of(found.url) as client:
            reply = await client.ask("POST", "/chat", b"{}")
            pieces = reply.pieces()
            assert await anext(pieces) == b"said"
            read.set()
            with pytest.raises(Broken):
                _ = [piece async for piece in pieces]
            reply.close()
            await until(lambda: found.ended == 1)

    run(work())


def test_a_switch_to_another_protocol_is_a_reply_without_content(run: Run) -> None:
    switch = b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"

    async def work() -> None:
        async with (
            server(sends(switch + whole(b"said"), whole(b"own"))) as found,
            client_of(found.url) as client,
        ):
            reply = await client.ask("POST", "/chat", b"{}")
            assert (reply.status, [piece async for piece in reply.pieces()]) == (101, [])
            reply.close()
            assert await ask(client) == b"own"
        assert found.connections == [0, 1]

    run(work())


CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"
ENDLESS = {
    "headers": (OK, b"x: y\r\n", Broken),
    "a header": (OK + b"x: ", b"y" * 1000, Broken),
    "a status": (b"HTTP/1.1 200 ", b"y" * 1000, Broken),
    "last headers": (CHUNKED + b"1\r\nx\r\n0\r\n", b"x: y\r\n", Broken),
    "a last header": (CHUNKED + b"1\r\nx\r\n0\r\nx: ", b"y" * 1000, Broken),
    # These are for whoever asks to end.
    "interim replies": (b"", b"HTTP/1.1 100 Continue\r\n\r\n", TimeoutError),
    "empty lines": (b"", b"\r\n", TimeoutError),
    "a note on a chunk": (CHUNKED + b"1;", b"y" * 1000, TimeoutError),
    "a length": (CHUNKED, b"0" * 1000, TimeoutError),
}


@asynccontextmanager
async def little_memory(most: int) -> AsyncIterator[None]:
    """Check that this process does not take `most` bytes more in the meantime."""
    taken: list[int] = []

    async def watch() -> None:
        while True:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            taken.append(pages * os.sysconf("SC_PAGE_SIZE"))
            await asyncio.sleep(0.02)

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0)
    try:
        yield
    finally:
        watching.cancel()
    assert max(taken) - taken[0] < most


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads its memory from /proc")
@pytest.mark.parametrize("case", ENDLESS)
def test_what_is_no_content_does_not_fill_the_memory(run: Run, case: str) -> None:
    start, endless, end = ENDLESS[case]

    async def script(before: int, writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        while True:
            writer.write(endless * (1 + 10_000 // len(endless)))
            await writer.drain()

    async def work() -> None:
        async with server(script) as found, client_of(found.url) as client:
            async with little_memory(64 << 20):
                with pytest.raises(end):
                    await asyncio.wait_for(ask(client), PATIENCE if end is Broken else 1.5)
            await until(lambda: found.ended == 1)

    run(work())


# Connections


def test_connections_are_used_again_while_they_are_fresh(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert client_module.IDLE_SECONDS < 5
    monkeypatch.setattr(client_module, "IDLE_SECONDS", 1.0)

    async def work() -> None:
        async with server(sends(whole(b"said"))) as found:
            async with client_of(found.url) as client:
                for _ in range(3):
                    await ask(client)
                await until(lambda: found.ended == 1)
                await ask(client)
            await until(lambda: found.ended == 2)
        assert found.connections == [0, 0, 0, 1]

    run(work())


def test_a_closed_client_can_ask_again(run: Run) -> None:
    async def work() -> None:
        async with server(sends(whole(b"said"))) as found, client_of(found.url) as client:
            assert await ask(client) == b"said"
            await client.close()
            await until(lambda: found.ended == 1)
            assert await ask(client) == b"said"
        assert found.connections == [0, 1]

    run(work())


@pytest.mark.parametrize("sent", [b"", OK + b"content-length: 99\r\n\r\nsaid"], ids=["head", "content"])
def test_whoever_waits_for_a_reply_is_told_that_the_client_was_closed(run: Run, sent: bytes) -> None:
    async def work() -> None:
        async with server(sends(sent)) as found, client_of(found.url) as client:
            asking = asyncio.create_task(ask(client))
            await until(lambda: bool(found.asked))
            await asyncio.sleep(0.1)
            await client.close()
            with pytest.raises(Broken):
                await asking

    run(work())


def test_requests_at_the_same_time_have_connections_of_their_own(run: Run) -> None:
    together = asyncio.Event()

    async def script(before: int, writer: asyncio.StreamWriter) -> None:
        if before < 8:
            if before == 7:
                together.set()
            await together.wait()
        writer.write(whole(b"%d" % before))

    async def work() -> None:
        async with server(script) as found, client_of(found.url) as client:
            assert len(set(await asyncio.gather(*(ask(client) for _ in range(8))))) == 8
            await asyncio.gather(*(ask(client) for _ in range(8)))
        assert set(found.connections) == set(range(8))

    run(work())


@pytest.mark.parametrize(
    "first",
    [
        whole(b"said", b"connection: close"),
        b"HTTP/1.0 200 OK\r\ncontent-length: 4\r\n\r\nsaid",
        whole(b"said") + whole(b"another's"),
    ],
)
def test_a_connection_is_not_used_again_where_that_could_mix_up_replies(run: Run, first: bytes) -> None:
    async def work() -> None:
        async with server(sends(first, whole(b"own"))) as found, client_of(found.url) as client:
            assert [await ask(client), await ask(client)] == [b"said", b"own"]
        assert found.connections == [0, 1]

    run(work())


@pytest.mark.parametrize(
    "first", [whole(b"said") + b"\0", whole(b"said", b"connection: close") + whole(b"another's")]
)
def test_a_reply_with_something_else_attached_is_itself_or_broken(run: Run, first: bytes) -> None:
    async def work() -> None:
        async with server(sends(first, whole(b"own"))) as found, client_of(found.url) as client:
            with suppress(Broken):
                assert await ask(client) == b"said"
            assert await ask(client) == b"own"
        assert found.connections == [0, 1]

    run(work())


LATE = [whole(b"another's"), whole(b"another's") * 2, OK + b"content-length: 9\r\n\r\nano", b"\0", b"SSH"]


@pytest.mark.parametrize("late", LATE)
def test_what_nobody_asked_for_is_nobodys_reply(run: Run, late: bytes) -> None:
    sent = asyncio.Event()

    async def script(before: int, writer: asyncio.StreamWriter) -> None:
        writer.write(whole(b"%d" % before))
        if before == 0:
            await writer.drain()
            await asyncio.sleep(0.05)
            writer.write(late)
            await writer.drain()
            sent.set()

    async def work() -> None:
        async with server(script) as found, client_of(found.url) as client:
            assert await ask(client) == b"0"
            await sent.wait()
            await asyncio.sleep(0.1)
            assert await ask(client) == b"1"
            await until(lambda: found.ended == 1)
        assert found.connections == [0, 1]

    run(work())


@pytest.mark.parametrize("greeting", [b"SSH-2.0-x\r\n", b"\0"])
def test_a_server_that_speaks_first_is_broken(run: Run, greeting: bytes) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        await reader.read()
        writer.close()

    async def work() -> None:
        listening = await asyncio.start_server(greet, "127.0.0.1", 0)
        async with client_of(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}") as client:
            with pytest.raises(Broken):
                await ask(client)
        listening.close()

    run(work())


def test_a_connection_that_ended_while_it_was_idle_is_not_used(run: Run) -> None:
    async def script(before: int, writer: asyncio.StreamWriter) -> None:
        writer.write(whole(b"%d" % before))
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.close()

    async def work() -> None:
        async with server(script) as found, client_of(found.url) as client:
            assert await ask(client) == b"0"
            await asyncio.sleep(0.3)
            assert await ask(client) == b"1"

    run(work())


def test_a_reply_that_is_left_early_ends_its_connection(run: Run) -> None:
    async def work() -> None:
        cut = OK + b"content-length: 99\r\n\r\nsaid"
        async with server(sends(cut, whole(b"own"))) as found, client_of(found.url) as client:
            reply = await client.ask("POST", "/chat", b"{}")
            assert await anext(reply.pieces()) == b"said"
            reply.close()
            assert await ask(client) == b"own"
            await until(lambda: found.ended == 1)
        assert found.connections == [0, 1]

    run(work())


def test_a_request_that_is_given_up_ends_its_connection(run: Run) -> None:
    async def work() -> None:
        async with server(sends(b"", whole(b"own"))) as found, client_of(found.url) as client:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await ask(client)
            await until(lambda: found.ended == 1)
            assert await ask(client) == b"own"

    run(work())


def test_a_request_that_nobody_reads_ends_its_connection_too(run: Run) -> None:
    size, given_up, arrived = 64 << 20, asyncio.Event(), 0

    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal arrived
        await given_up.wait()
        with suppress(ConnectionError):
            while part := await reader.read(1 << 20):
                arrived += len(part)
        writer.close()
        ended.set()

    ended = asyncio.Event()

    async def work() -> None:
        listening = await asyncio.start_server(late, "127.0.0.1", 0)
        async with client_of(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}") as client:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    await ask(client, b"x" * size)
            given_up.set()
            await ended.wait()
        listening.close()

    run(work())
    assert arrived < size // 2  # what the sockets hold


def test_patience_is_for_each_piece(run: Run) -> None:
    async def script(before: int, writer: asyncio.StreamWriter) -> None:
        writer.write(OK + b"transfer-encoding: chunked\r\n\r\n")
        for _ in range(6):
            await asyncio.sleep(0.1)
            writer.write(b"1\r\nx\r\n")
        await asyncio.sleep(PATIENCE)

    async def work() -> None:
        async with server(script) as found, client_of(found.url) as client:
            reply = await client.ask("POST", "/chat", b"{}")
            pieces = reply.pieces(patience=0.4)
            assert [await anext(pieces) for _ in range(6)] == [b"x"] * 6
            with pytest.raises(TimeoutError):
                await anext(pieces)
            reply.close()

    run(work())


def test_a_server_waits_for_a_slow_reader_and_its_connection_serves_again(run: Run) -> None:
    size, written = 64 << 20, 0

    async def script(before: int, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        writer.write(OK + b"content-length: %d\r\n\r\n" % size)
        for _ in range(size >> 16):
            writer.write(b"x" * (1 << 16))
            await writer.drain()
            written += 1 << 16

    async def work() -> None:
        async with server(script) as found, client_of(found.url) as client:
            for _ in range(2):
                reply = await client.ask("POST", "/chat", b"{}")
                before = written
                await asyncio.sleep(0.3)
                assert written - before < size // 2
                assert max([len(piece) async for piece in reply.pieces()]) < size // 8
                reply.close()
        assert written == 2 * size and found.connections == [0, 0]

    run(work())


@pytest.mark.parametrize("read", [True, False])
@pytest.mark.parametrize("size", [1 << 16, 1 << 17, 1 << 18, 1 << 20])
def test_a_reply_whose_end_came_too_fast_leaves_a_connection_that_listens(
    run: Run, size: int, read: bool
) -> None:
    large = b"x" * (size + 1)

    async def work() -> None:
        async with server(sends(whole(large), whole(b"own"))) as found, client_of(found.url) as client:
            reply = await client.ask("POST", "/chat", b"{}")
            await asyncio.sleep(0.3)
            if read:
                assert b"".join([piece async for piece in reply.pieces()]) == large
            reply.close()
            assert await ask(client) == b"own"
        assert not read or found.connections == [0, 0]

    run(work())


# Proxies and TLS


@dataclass(frozen=True)
class Pair:
    """A certificate for 127.0.0.1 that signs itself, and its key."""

    certificate: Path
    key: Path

    def for_server(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.certificate, self.key)
        return context


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs the openssl command to make a certificate")
    folder = tmp_path_factory.mktemp("tls")
    made = Pair(folder / "certificate.pem", folder / "key.pem")
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(made.key), "-out", str(made.certificate)]
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"]
    subprocess.run([openssl, "req", "-x509", *kind, *subject, *files], check=True, capture_output=True)
    return made


@pytest.fixture
def trusted(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> Pair:
    monkeypatch.setenv("SSL_CERT_FILE", str(pair.certificate))
    return pair


def test_an_encrypted_server_is_asked_if_it_is_trusted(run: Run, trusted: Pair) -> None:
    async def work() -> None:
        async with server(sends(whole(b"said")), trusted.for_server()) as found:
            async with client_of(found.url) as client:
                assert [await ask(client), await ask(client)] == [b"said"] * 2
            async with client_of(found.url.replace("127.0.0.1", "localhost")) as client:
                with pytest.raises(Broken):
                    await ask(client)
        assert found.connections == [0, 0]

    run(work())


def test_an_encrypted_server_that_nobody_vouches_for_gets_no_request(run: Run, pair: Pair) -> None:
    async def work() -> None:
        async with (
            server(sends(whole(b"said")), pair.for_server()) as found,
            client_of(found.url) as client,
        ):
            with pytest.raises(Broken):
                await ask(client)
            assert not found.asked

    run(work())


@asynccontextmanager
async def tunnels(status: bytes) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A proxy that opens tunnels, be it after saying that it does not, and what it was asked."""
    heads: list[bytes] = []

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while part := await reader.read(1 << 16):
            writer.write(part)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        heads.append(head)
        writer.write(b"HTTP/1.1 %b\r\n\r\n" % status)
        host, port = head.split()[1].decode().rsplit(":", 1)
        onward = await asyncio.open_connection(host, int(port))
        await asyncio.gather(pour(reader, onward[1]), pour(onward[0], writer))

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{listening.sockets[0].getsockname()[1]}", heads
    finally:
        listening.close()


def test_a_proxy_opens_the_way_to_an_encrypted_server_and_sees_nothing_else(
    run: Run, trusted: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        async with (
            server(sends(whole(b"said")), trusted.for_server()) as found,
            tunnels(b"200 Connection established") as (proxy, heads),
        ):
            monkeypatch.setenv("https_proxy", f"http://us%40er:p%E2%82%ACss@{proxy}")
            async with client_of(found.url, {"authorization": "Bearer secret"}) as client:
                assert [await ask(client), await ask(client)] == [b"said"] * 2
        authority = found.url.removeprefix("https://").removesuffix("/v1")
        (head,) = heads
        start, headers = lines(head)
        assert (start, headers["host"]) == (f"CONNECT {authority} HTTP/1.1", authority)
        assert headers["proxy-authorization"] == "Basic " + b64encode("us@er:p€ss".encode()).decode()
        assert b"secret" not in head and b"/v1" not in head
        _, headers = lines(found.asked[0][1])
        assert "proxy-authorization" not in headers and headers["authorization"] == "Bearer secret"

    run(work())


@pytest.mark.parametrize("status", [b"407 Proxy Authentication Required", b"502 Bad Gateway", b"204 No"])
def test_a_proxy_that_refuses_is_a_broken_connection(
    run: Run, trusted: Pair, monkeypatch: pytest.MonkeyPatch, status: bytes
) -> None:
    async def work() -> None:
        async with (
            server(sends(whole(b"said")), trusted.for_server()) as found,
            tunnels(status) as (proxy, _),
        ):
            monkeypatch.setenv("https_proxy", proxy)
            async with client_of(found.url) as client:
                with pytest.raises(Broken):
                    await ask(client)
            assert not found.asked

    run(work())


def test_a_proxy_that_says_nothing_is_a_broken_connection(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "CONNECT_SECONDS", 0.3)

    async def work() -> None:
        async with server(sends(b"")) as found:
            monkeypatch.setenv("https_proxy", found.url)
            async with client_of("https://model.invalid/v1") as client:
                with pytest.raises(Broken):
                    await ask(client)
            await until(lambda: found.ended == 1)

    run(work())


def test_a_proxy_cannot_lead_to_another_server(
    run: Run, trusted: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        async with (
            server(sends(whole(b"said")), trusted.for_server()) as found,
            tunnels(b"200 OK") as (proxy, heads),
        ):
            monkeypatch.setenv("https_proxy", proxy)
            async with client_of(found.url.replace("127.0.0.1", "localhost")) as client:
                with pytest.raises(Broken):
                    await ask(client)
            assert heads and not found.asked

    run(work())


def test_the_key_of_a_proxy_goes_to_the_proxy(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with server(sends(whole(b""))) as found:
            monkeypatch.setenv("http_proxy", found.url.replace("://", "://user:pass@"))
            async with client_of("http://model.invalid/v1") as client:
                await ask(client)
        _, headers = lines(found.asked[0][1])
        assert headers["proxy-authorization"] == "Basic " + b64encode(b"user:pass").decode()
        assert "authorization" not in headers

    run(work())


def test_a_server_that_needs_no_proxy_is_asked_without(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")

    async def work() -> None:
        async with server(sends(whole(b"said"))) as found, client_of(found.url) as client:
            assert await ask(client) == b"said"

    run(work())


@pytest.mark.parametrize(
    "proxy", ["socks5://127.0.0.1:1", "http://", "http://a:b:c", "http://a..b:1", "https://127.0.0.1:1"]
)
def test_a_proxy_that_cannot_be_used_is_told_at_the_start(
    monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    monkeypatch.setenv("http_proxy", proxy)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with pytest.raises(InputError, match="http_proxy is not the address of a plain proxy"):
        Client("http://model.invalid/v1", {})


def test_a_name_that_leads_nowhere_is_broken(run: Run) -> None:
    assert "http_proxy" not in os.environ

    async def work() -> None:
        for place in ("no-such-host.invalid", "127.0.0.1:1", "no name", "a..b"):
            async with client_of(f"http://{place}/v1") as client:
                with pytest.raises(Broken):
                    await ask(client)

    run(work())
