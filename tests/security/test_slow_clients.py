"""Clients that send slowly, say nothing or do not read are cut off; the others are answered."""

import itertools
import json
import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from calibsft.gateway.connections import SPARE_CONNECTIONS
from gateway_process import IDLE_SECONDS, Running, gateway, policy_file
from scripted_server import (
    EVENTS,
    PATIENCE,
    QUESTION,
    Asked,
    Scripted,
    Sent,
    chunk,
    completion,
    event,
    says,
    sends,
)

CLIENT_SECONDS = 2.0
PLACES, QUEUE = 8, 1
LARGE = "x" * (1 << 16)
# More than the buffers of both ends of a connection hold.
MEGABYTES = 14
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"


@pytest.fixture(scope="module")
def running(
    tmp_path_factory: pytest.TempPathFactory, local_server: Scripted, strong_server: Scripted
) -> Iterator[Running]:
    """Defers everything, and waits two seconds for a client."""
    rules = policy_file(tmp_path_factory.mktemp("slow"), model="served")
    names = {"local_model": "l", "strong_model": "s"}
    limits = {"client_timeout": CLIENT_SECONDS, "concurrency": PLACES, "queue": QUEUE}
    with gateway(rules, local_server.url, strong_server.url, **names, **limits) as found:
        yield found
        log = found.said()
    assert "Traceback" not in log and "unexpected" not in log


@pytest.fixture
def strong(local_server: Scripted, strong_server: Scripted) -> Scripted:
    local_server.reset(lambda asked: says("malformed"))
    strong_server.reset(lambda asked: says("strong"))
    return strong_server


def request(running: Running, **fields: Any) -> bytes:
    body = {"model": "served", "messages": [{"role": "user", "content": QUESTION}], **fields}
    content = json.dumps(body).encode()
    return HEAD + b"content-length: %d\r\n\r\n%b" % (len(content), content)


def is_answered(running: Running) -> bool:
    body = {"model": "served", "messages": [{"role": "user", "content": QUESTION}]}
    return httpx2.post(
        f"{running.url}/chat/completions", json=body, trust_env=False, timeout=PATIENCE
    ).is_success


def health(one: socket.socket) -> bool:
    one.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
    received = b""
    while not received.endswith(b"}") and (piece := one.recv(1 << 16)):
        received += piece
    return received.startswith(b"HTTP/1.1 200 ")


@contextmanager
def unread(running: Running) -> Iterator[socket.socket]:
    """A connection whose client has little room for what it does not read."""
    with running.connected() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        yield one


def ends(one: socket.socket) -> bool:
    """Whether the other side ends the connection, which is waited for; nothing is read meanwhile."""
    poll = select.poll()
    poll.register(one, select.POLLRDHUP)
    return bool(poll.poll(1000 * PATIENCE))


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def refuses(one: socket.socket, drop: bytes) -> bool:
    """Whether nothing more can be sent; a connection that was ended refuses the second drop."""
    try:
        one.sendall(drop)
    except ConnectionError:
        return True
    return False


def sockets(running: Running) -> int:
    """How many sockets the gateway has open; those that it closes while they are counted do not count."""
    count = 0
    for file in Path(f"/proc/{running.process.pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            count += file.readlink().name.startswith("socket:")
    return count


@pytest.mark.parametrize(
    "sent",
    [b"", b"G", HEAD, b"\r\n"],
    ids=["nothing", "a letter", "half a head", "an empty line"],
)
def test_a_client_that_falls_silent_in_its_head_is_cut_off(running: Running, sent: bytes) -> None:
    with running.connected() as one:
        one.sendall(sent)
        assert ends(one)


@pytest.mark.parametrize("sent", [b"G", b"\r\n"])
def test_the_same_after_a_request(running: Running, sent: bytes) -> None:
    with running.connected() as one:
        assert health(one)
        one.sendall(sent)
        assert ends(one)


@pytest.mark.parametrize("drop", [b"x", b"\r\n"], ids=["letters", "empty lines"])
def test_a_head_in_drops_is_cut_off_however_long_it_goes_on(running: Running, drop: bytes) -> None:
    with running.connected() as one:
        until(lambda: refuses(one, drop))


@pytest.mark.parametrize("sent", [b"", b'{"model"'])
def test_a_body_that_never_comes_is_given_up(running: Running, strong: Scripted, sent: bytes) -> None:
    with running.connected() as one:
        one.sendall(HEAD + b"content-length: 100\r\n\r\n" + sent)
        response = b""
        while not response.endswith(b"}}") and (piece := one.recv(1 << 16)):
            response += piece
        assert response.startswith(b"HTTP/1.1 408 ") and b'"code":"timeout"' in response
    assert is_answered(running)


def test_an_idle_connection_outlives_the_time_for_a_head(running: Running) -> None:
    with running.connected() as one:
        for _ in range(2):
            assert health(one)
            time.sleep(2 * CLIENT_SECONDS)


def test_a_connection_that_is_idle_for_longer_than_the_limit_ends(
    tmp_path: Path, local_server: Scripted
) -> None:
    rules = policy_file(tmp_path, otherwise="abstain", model="served")
    # Neither the time for a head nor uvicorn's own limit of five seconds is what ends it.
    limits = {"client_timeout": 10 * PATIENCE, "environment": {IDLE_SECONDS: "7"}}
    with gateway(rules, local_server.url, **limits) as running, running.connected() as one:
        assert health(one)
        began = time.monotonic()
        assert ends(one) and time.monotonic() - began > 6


def endless(asked: Asked) -> Sent:
    return Sent(200, itertools.repeat(event(chunk(LARGE))), EVENTS)


def test_clients_that_do_not_read_their_streams_give_their_places_back(
    running: Running, strong: Scripted
) -> None:
    strong.answer = endless
    with ExitStack() as clients:
        for _ in range(PLACES):
            one = clients.enter_context(unread(running))
            one.sendall(request(running, stream=True))
        until(lambda: len(strong.chats) == PLACES)
        strong.answer = lambda asked: says("strong")
        assert is_answered(running)
        until(lambda: running.count("calibsft_in_flight") == 0)
    assert "took nothing for 2 seconds" in running.said()


def test_a_client_that_does_not_read_a_large_reply_is_cut_off(running: Running, strong: Scripted) -> None:
    strong.answer = lambda asked: sends(completion("x" * (MEGABYTES << 20)))
    with unread(running) as one:
        one.sendall(request(running))
        assert ends(one)
    assert is_answered(running)


def test_a_client_that_reads_slowly_gets_all_of_it(running: Running, strong: Scripted) -> None:
    strong.answer = lambda asked: sends(completion("x" * (MEGABYTES << 20)))
    received = 0
    with running.connected() as one:
        one.sendall(request(running))
        while received < MEGABYTES << 20:
            piece = one.recv(1 << 18)
            assert piece
            received += len(piece)
            time.sleep(0.1)


def test_silent_clients_keep_nobody_out(running: Running, strong: Scripted) -> None:
    most = PLACES + QUEUE + SPARE_CONNECTIONS
    before = sockets(running)
    with running.connected() as used, ExitStack() as clients:
        assert health(used)
        silent = [clients.enter_context(running.connected()) for _ in range(most + 50)]
        assert is_answered(running)
        until(lambda: sockets(running) <= before + most + 2)  # two of them to the servers
        assert ends(silent[0]), "the one that is silent longest"
        assert health(used), "it had asked something"
    assert is_answered(running)
