"""Hostile clients and hostile servers: a clear refusal, nothing fetched, nothing injected, and the gateway goes on."""

import gzip
import itertools
import json
import re
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from calibsft.gateway import app as app_module
from calibsft.gateway.app import App, Serving
from calibsft.gateway.connections import LARGEST_HEAD
from calibsft.gateway.gateway import Gateway
from calibsft.gateway.meters import Meters
from calibsft.gateway.upstream import Upstream
from gateway_process import Running, gateway, policy, policy_file
from scripted_server import (
    ANSWER,
    EVENTS,
    HOST,
    PATIENCE,
    QUESTION,
    Scripted,
    Sent,
    chunk,
    completion,
    confident,
    event,
    says,
    scripted_server,
    sends,
    streams,
)

MAX_BODY = 64 << 10
PIECE = b"x" * (1 << 18)
MEGABYTES = 100
JSON = "content-type: application/json\r\n"
OWN_HEADERS = {"date", "content-length", "content-type", "x-request-id", "connection"}


@pytest.fixture(scope="module")
def running(
    tmp_path_factory: pytest.TempPathFactory, local_server: Scripted, strong_server: Scripted
) -> Iterator[Running]:
    rules = policy_file(tmp_path_factory.mktemp("hostile"), model="served")
    names = {"local_model": "l", "strong_model": "s"}
    with gateway(
        rules, local_server.url, strong_server.url, retries=0, max_body=MAX_BODY >> 10, **names
    ) as found:
        yield found
        log = found.said()
    assert "Traceback" not in log and "unexpected" not in log
    assert log.isascii() and "\x1b" not in log and ANSWER not in log


@pytest.fixture
def local(local_server: Scripted) -> Scripted:
    local_server.reset(lambda asked: says(confident("0.95")))
    return local_server


@pytest.fixture
def strong(strong_server: Scripted) -> Scripted:
    strong_server.reset(lambda asked: says("strong"))
    return strong_server


@pytest.fixture(scope="module")
def connection() -> Iterator[httpx2.Client]:
    with httpx2.Client(trust_env=False, timeout=PATIENCE) as found:
        yield found


def body(**fields: Any) -> dict[str, Any]:
    return {"model": "served", "messages": [{"role": "user", "content": QUESTION}], **fields}


def post(
    running: Running, content: bytes | Iterator[bytes], kind: str | None = "application/json"
) -> httpx2.Response:
    headers = {} if kind is None else {"content-type": kind}
    url = f"{running.url}/chat/completions"
    return httpx2.post(url, content=content, headers=headers, trust_env=False, timeout=PATIENCE)


def ask(running: Running, **fields: Any) -> httpx2.Response:
    return post(running, json.dumps(body(**fields)).encode())


def is_well(running: Running, local: Scripted) -> bool:
    """Whether the gateway still answers an ordinary question."""
    local.reset(lambda asked: says(confident("0.95")))
    return ask(running).status_code == 200


def exchange(url: str, *parts: bytes | Iterable[bytes], end: bytes = b"") -> bytes:
    """What comes back for these very bytes, up to `end` or to the end of the connection."""
    host, _, port = url.removeprefix("http://").removesuffix("/v1").partition(":")
    with socket.create_connection((host, int(port)), PATIENCE) as one:
        try:
            for part in itertools.chain.from_iterable([p] if isinstance(p, bytes) else p for p in parts):
                one.sendall(part)
        except ConnectionError:
            pass  # refused before all was sent
        received = b""
        try:
            while not (end and end in received) and (piece := one.recv(1 << 16)):
                received += piece
        except ConnectionError:
            pass
        return received


def posted(headers: str, path: str = "/v1/chat/completions") -> bytes:
    return f"POST {path} HTTP/1.1\r\nhost: x\r\n{headers}\r\n".encode("latin-1")


def status(response: bytes) -> int:
    return int(response.split(b" ", 2)[1])


def peak_megabytes(running: Running) -> int:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{running.process.pid}/status").read_text())
    assert found
    return int(found[1]) >> 10


# Bodies


@pytest.mark.parametrize("framing", ["length", "chunks"])
def test_a_huge_body_is_refused_and_not_kept(running: Running, local: Scripted, framing: str) -> None:
    before, pieces = peak_megabytes(running), (MEGABYTES << 20) // len(PIECE)
    if framing == "length":
        head, sent = posted(f"{JSON}content-length: {MEGABYTES << 20}\r\n"), itertools.repeat(PIECE, pieces)
    else:
        head = posted(f"{JSON}transfer-encoding: chunked\r\n")
        sent = itertools.repeat(b"%x\r\n%s\r\n" % (len(PIECE), PIECE), pieces)
    response = exchange(running.url, head, sent, end=b"}}")
    assert status(response) == 413 and b'"code":"too_large"' in response
    assert peak_megabytes(running) - before < MEGABYTES // 4
    assert is_well(running, local)


def test_the_largest_body_is_read_and_one_byte_more_is_not(running: Running, local: Scripted) -> None:
    content = json.dumps(body()).encode()
    assert post(running, content.ljust(MAX_BODY)).status_code == 200
    for framing in ("length", "chunks"):
        more = content.ljust(MAX_BODY + 1)
        response = post(running, more if framing == "length" else iter([more]))
        assert response.status_code == 413 and str(MAX_BODY) in response.json()["error"]["message"]
    assert len(local.chats) == 1


def test_a_length_that_is_too_much_is_refused_before_anything_is_sent(running: Running) -> None:
    head = posted(f"{JSON}content-length: {MAX_BODY + 1}\r\nexpect: 100-continue\r\n")
    response = exchange(running.url, head, end=b"}}")
    assert status(response) == 413 and b"100 Continue" not in response


def test_a_body_that_is_folded_is_not_unfolded(running: Running, local: Scripted) -> None:
    folded = gzip.compress(json.dumps(body()).encode())
    head = posted(f"{JSON}content-encoding: gzip\r\nconnection: close\r\ncontent-length: {len(folded)}\r\n")
    assert status(exchange(running.url, head, folded)) == 400
    assert not local.asked


@pytest.mark.parametrize(
    "kind",
    [
        None,
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonx",
    ],
)
def test_another_content_type_is_refused(running: Running, local: Scripted, kind: str | None) -> None:
    # A page in a browser can send these anywhere without asking first.
    response = post(running, json.dumps(body()).encode(), kind)
    assert (response.status_code, response.json()["error"]["code"]) == (415, "unsupported_media_type")
    assert not local.asked


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/JSON ;x=y"])
def test_the_content_type_may_have_parameters(running: Running, local: Scripted, kind: str) -> None:
    assert post(running, json.dumps(body()).encode(), kind).status_code == 200


def deep(depth: int) -> bytes:
    return (
        json.dumps(body()).encode().replace(b'{"model"', b'{"x":' + b"[" * depth + b"]" * depth + b',"model"')
    )


def test_at_any_depth_it_is_an_answer_or_a_refusal(
    running: Running, local: Scripted, strong: Scripted
) -> None:
    local.answer = lambda asked: says("malformed")  # so that all of it goes on to the strong model
    found = [
        post(running, deep(depth)).status_code for depth in (10, 90, 200, 500, *range(900, 1000, 7), 30_000)
    ]
    assert found == [200] * 2 + [400] * (len(found) - 2)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"null", b"[" * 60_000, b'{"a":1e999}', b"\0" * 100])
def test_bad_json_is_refused(running: Running, local: Scripted, content: bytes) -> None:
    assert post(running, content).status_code == 400
    assert not local.asked


@contextmanager
def in_this_process(local: Scripted) -> Iterator[str]:
    """A gateway whose constants a test can change."""
    upstream = Upstream("local", local.url, "l", "none", PATIENCE, 0)
    served = Gateway(policy(otherwise="abstain"), upstream, None, Meters(), 8, 8)
    with socket.create_server((HOST, 0)) as taken:
        config = uvicorn.Config(App(served, Serving("served", None, MAX_BODY, PATIENCE)), log_config=None)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([taken],))
        thread.start()
        try:
            yield f"http://{HOST}:{taken.getsockname()[1]}/v1"
        finally:
            server.should_exit = True
            thread.join()


def test_an_unforeseen_error_is_an_error_500_that_tells_nobody_what_was_sent(
    local: Scripted, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # There is no known way to provoke one.
    def broken(*_: object) -> None:
        raise KeyError(QUESTION)

    monkeypatch.setattr(app_module, "read_request", broken)
    with in_this_process(local) as url, caplog.at_level("INFO"):
        whole = json.dumps(body()).encode()
        head = posted(f"{JSON}connection: close\r\ncontent-length: {len(whole)}\r\n")
        response = exchange(url, head, whole)
    assert status(response) == 500 and b'"code":"internal_error"' in response
    assert "unexpected KeyError, request" in caplog.text and QUESTION not in caplog.text
    assert QUESTION.encode() not in response


def test_a_client_that_leaves_in_its_body_does_no_harm(running: Running, local: Scripted) -> None:
    host, _, port = running.url.removeprefix("http://").removesuffix("/v1").partition(":")
    with socket.create_connection((host, int(port)), PATIENCE) as one:
        one.sendall(posted(f"{JSON}content-length: 100\r\n") + b'{"model"')
    assert is_well(running, local)


# Heads


@pytest.mark.parametrize(
    "begin",
    [
        b"GET /",
        b"GET /healthz HTTP/1.1\r\nx: ",
        b"GET /healthz HTTP/1.1\r\n",
        posted(f"{JSON}transfer-encoding: chunked\r\n") + b"0\r\nx: ",
    ],
    ids=["path", "header", "name", "trailer"],
)
def test_a_head_without_end_is_refused(running: Running, local: Scripted, begin: bytes) -> None:
    before = peak_megabytes(running)
    response = exchange(running.url, begin, itertools.repeat(PIECE, 4 * LARGEST_HEAD // len(PIECE)))
    assert status(response or b"closed 400") == 400
    assert b"200 OK" not in response
    assert peak_megabytes(running) - before < MEGABYTES // 4
    assert is_well(running, local)


def test_many_headers_are_too_long_a_head(running: Running, local: Scripted) -> None:
    many = b"".join(b"x%d: y\r\n" % number for number in range(300_000))
    response = exchange(running.url, b"GET /healthz HTTP/1.1\r\n", many, b"\r\n")
    assert b"200 OK" not in response and status(response or b"closed 400") == 400
    assert is_well(running, local)


SMUGGLED = b"GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n"
AMBIGUOUS = {
    "both": f"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{SMUGGLED.decode()}",
    "both, the other way": "transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": "content-length: 0\r\ncontent-length: 36\r\n\r\n",
    "two codings": "transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\n",
    "unknown coding": "transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
    "negative length": "content-length: -1\r\n\r\n",
    "length in words": "content-length: five\r\n\r\n",
    "hexadecimal length": "content-length: 0x5\r\n\r\nhello",
    "length beyond all bounds": f"content-length: {'9' * 40}\r\n\r\n",
    "space before the colon": "content-length : 5\r\n\r\nhello",
    "folded header": "x: a\r\n content-length: 5\r\ncontent-length: 0\r\n\r\n",
    "bare line feeds": "x: a\ny: b\n\n",
    "bare carriage return": "x: a\rcontent-length: 5\r\n\r\n",
    "NUL": "x: a\0b\r\n\r\n",
}


@pytest.mark.parametrize("case", AMBIGUOUS)
def test_a_request_that_others_might_read_otherwise_is_refused(
    running: Running, local: Scripted, case: str
) -> None:
    response = exchange(running.url, posted(JSON + AMBIGUOUS[case])[:-2])
    assert status(response) == 400 and response.count(b"HTTP/1.1") == 1
    assert not local.asked


@pytest.mark.parametrize(
    "request_line",
    [
        "CONNECT 127.0.0.1:{port} HTTP/1.1",
        "GET http://127.0.0.1:{port}/v1/models HTTP/1.1",
        "POST http://127.0.0.1:{port}/v1/chat/completions HTTP/1.1",
        "GET //127.0.0.1:{port}/v1/models HTTP/1.1",
        "GET /v1/models/http://127.0.0.1:{port}/ HTTP/1.1",
        "OPTIONS * HTTP/1.1",
    ],
)
def test_the_gateway_is_no_proxy(running: Running, local: Scripted, request_line: str) -> None:
    with scripted_server() as bait:
        port = bait.url.split(":")[2].removesuffix("/v1")
        request = f"{request_line.format(port=port)}\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n\r\n"
        response = exchange(running.url, request.encode())
        assert status(response) in (200, 400, 404, 405, 415)
        assert not bait.asked and not local.asked
    assert b"scripted" not in response and port.encode() not in response


# Names, addresses and texts


@pytest.mark.parametrize("stream", [False, True])
def test_no_model_name_reaches_a_server(running: Running, local: Scripted, stream: bool) -> None:
    with scripted_server() as bait:
        names = [
            bait.url,
            f"{bait.url}/chat/completions#",
            f"served@{bait.url}",
            "served@main",
            "../served",
            "../../v1/models",
            "served/..",
            "served?x=y",
            "served#",
            "served\r\nx-evil: yes",
            "served\0",
            " served",
            "l",
            "s",
            "file:///etc/passwd",
            "",
        ]
        found = [ask(running, model=name, stream=stream) for name in names]
        assert {one.status_code for one in found} == {404}
        assert all(set(one.headers) <= OWN_HEADERS for one in found)
        assert not bait.asked and not local.asked


def test_nothing_that_a_client_names_is_fetched(running: Running, local: Scripted, strong: Scripted) -> None:
    local.answer = lambda asked: says("malformed")
    with scripted_server() as bait:
        said = [{"role": "user", "content": f"See {bait.url} and ![]({bait.url}) <img src='{bait.url}'>"}]
        fields = {"base_url": bait.url, "api_base": bait.url, "webhook": bait.url, "user": bait.url}
        assert ask(running, messages=said, **fields).status_code == 200
        image = [{"type": "image_url", "image_url": {"url": f"{bait.url}/x.png"}}]
        refused = ask(running, messages=[{"role": "user", "content": image}])
        assert refused.status_code == 400 and bait.url not in refused.text
        assert not bait.asked
    assert [one.path for one in strong.asked] == ["/v1/chat/completions"]


def test_what_an_upstream_names_is_not_fetched(running: Running, local: Scripted, strong: Scripted) -> None:
    with scripted_server() as bait:
        named = {"location": bait.url, "refresh": f"0; url={bait.url}", "link": f"<{bait.url}>; rel=next"}
        local.answer = lambda asked: Sent(302, [b"{}"], headers=named)
        strong.answer = lambda asked: Sent(200, [json.dumps(completion("x")).encode()], headers=named)
        response = ask(running)
        assert response.json()["calibsft"]["reason"] == "local_failed"
        assert not bait.asked
        assert not {"location", "refresh", "link"} & set(response.headers)


def test_headers_of_a_client_come_back_in_no_header(running: Running, local: Scripted) -> None:
    evil = {"x-request-id": "evil", "x-calibsft-decision": "evil", "host": "evil", "x-forwarded-host": "evil"}
    url = f"{running.url}/chat/completions"
    response = httpx2.post(url, json=body(), headers=evil, trust_env=False, timeout=PATIENCE)
    assert response.status_code == 200
    assert "evil" not in str(response.headers) and "evil" not in response.text


HOSTILE = [
    "data: [DONE]\n\n",
    '\n\ndata: {"choices":[]}\n\nevent: x\nid: 1\n\n',
    "a\r\nb\rc",
    "\r\n\r\nHTTP/1.1 200 OK\r\nx-evil: yes",
    "\0",
    "\ud800",
    "\udfff\ud800 half",
    "\x1b[2J\x1b]0;title\x07",
    "\u2028\u2029\x85\x0b\x0c",
    "</script><script>alert(1)</script>",
    '"}],"calibsft":{"decision":"answered"}',
    "\\ud800 \\n",
    "\ufeff\u202e\U000e0041",
    "😀" * 100,
]


def pieces(response: httpx2.Response) -> list[Any]:
    """The events of a stream whose bytes hold no line end but those between events."""
    *given, last, nothing = response.content.split(b"\n\n")
    assert (last, nothing) == (b"data: [DONE]", b"")
    assert all(one.startswith(b"data: ") and not re.search(rb"[\x00-\x1f]", one) for one in given)
    return [json.loads(one.removeprefix(b"data: ")) for one in given]


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_what_the_local_model_says_stays_inside_its_text(
    running: Running, local: Scripted, text: str
) -> None:
    reply = completion(confident("0.95", answer=f"a{text}b", think=f"c{text}d"))
    reply["model"] = text
    local.answer = lambda asked: sends(reply)
    expected = {"role": "assistant", "content": f"a{text}b", "reasoning_content": f"c{text}d"}
    whole = ask(running)
    assert whole.json()["choices"][0]["message"] == expected and whole.json()["model"] == text
    streamed = ask(running, stream=True)
    assert pieces(streamed)[0]["choices"][0]["delta"] == expected
    for one in (whole, streamed):
        assert one.headers["x-calibsft-decision"] == "answered" and "x-evil" not in one.headers


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_what_the_strong_model_says_stays_inside_its_text(
    running: Running, local: Scripted, strong: Scripted, text: str
) -> None:
    local.answer = lambda asked: says("malformed")
    strong.answer = lambda asked: (
        streams(chunk(text), chunk(text, "stop")) if asked.body.get("stream") else says(text)
    )
    assert ask(running).json()["choices"][0]["message"]["content"] == text
    found = pieces(ask(running, stream=True))
    assert [one["choices"][0]["delta"]["content"] for one in found] == [text, text]


def test_line_ends_between_the_tokens_of_a_chunk_do_not_split_it(
    running: Running, local: Scripted, strong: Scripted
) -> None:
    split = json.dumps(chunk("x", "stop")).replace(", ", ",\r")
    local.answer = lambda asked: says("malformed")
    strong.answer = lambda asked: Sent(200, [event(chunk("y")), event(split), event("[DONE]")], EVENTS)
    response = ask(running, stream=True)
    assert b"\r" not in response.content and b'"code":"upstream_broken"' in response.content


@pytest.mark.parametrize(
    "header", ["x-evil", "set-cookie", "x-calibsft-decision", "x-request-id", "content-type"]
)
def test_headers_of_a_server_go_no_further(
    running: Running, local: Scripted, strong: Scripted, header: str
) -> None:
    local.answer = lambda asked: says("malformed")
    strong.answer = lambda asked: Sent(200, [json.dumps(completion("x")).encode()], headers={header: "evil"})
    response = ask(running)
    assert response.status_code == 200 and "evil" not in str(response.headers)


# Hostile replies


def test_ten_thousand_choices_are_one_answer(running: Running, local: Scripted, strong: Scripted) -> None:
    reply = completion(confident("0.95"))
    reply["choices"] *= 10_000
    local.answer = lambda asked: sends(reply)
    (choice,) = ask(running).json()["choices"]
    assert choice["message"]["content"] == ANSWER
    local.answer, strong.answer = (lambda asked: says("malformed")), (lambda asked: sends(reply))
    assert ask(running).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
def test_replies_of_any_depth_are_an_answer_or_a_clear_error(
    running: Running, local: Scripted, strong: Scripted, stream: bool
) -> None:
    local.answer = lambda asked: says("malformed")
    statuses = []
    for depth in (10, 90, 200, *range(900, 1000, 7), 100_000):
        reply = chunk("x", "stop") if stream else completion("x")
        text = json.dumps(reply)[:-1] + ', "deep": ' + "[" * depth + "]" * depth + "}"
        strong.answer = lambda asked, text=text: streams(text) if stream else sends(text.encode())
        response = ask(running, stream=stream)
        failed = b'"error"' in response.content
        statuses.append(502 if failed else response.status_code)
    assert statuses == [200] * 2 + [502] * (len(statuses) - 2)


@pytest.mark.parametrize("tokens", [10**400, -5, 1.5, "7", None, True, [1], 10**20])
def test_token_counts_that_are_none_do_no_harm(running: Running, local: Scripted, tokens: Any) -> None:
    reply = completion(confident("0.95"))
    reply["usage"] = {"prompt_tokens": tokens, "completion_tokens": 3}
    local.answer = lambda asked: sends(reply)
    before = running.count("calibsft_tokens_total", 'kind="completion"')
    assert ask(running).status_code == 200
    assert running.count("calibsft_tokens_total", 'kind="completion"') == before + 3
    assert running.count("calibsft_tokens_total", 'kind="prompt"') < 10**9


TEXT = st.text(st.characters(exclude_categories=[]), max_size=20)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
SPOKEN = st.sampled_from([confident("0.95"), confident("0.15"), "", "malformed"]) | TEXT | ANYTHING
MESSAGE = st.fixed_dictionaries(
    {}, optional={"role": ANYTHING, "content": SPOKEN, "reasoning_content": SPOKEN, "reasoning": SPOKEN}
)
CHOICE = st.fixed_dictionaries(
    {},
    optional={
        "index": ANYTHING,
        "message": MESSAGE | ANYTHING,
        "delta": MESSAGE | ANYTHING,
        "finish_reason": st.sampled_from(["stop", "length"]) | ANYTHING,
    },
)
USAGE = st.dictionaries(st.sampled_from(["prompt_tokens", "completion_tokens"]), ANYTHING)
REPLY = ANYTHING | st.fixed_dictionaries(
    {},
    optional={
        "choices": st.lists(CHOICE | ANYTHING, max_size=2) | ANYTHING,
        "usage": USAGE | ANYTHING,
        "model": ANYTHING,
        "error": ANYTHING,
        "calibsft": ANYTHING,
    },
)
ANY_TIME = settings(
    deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@given(at_local=REPLY, at_strong=REPLY, status_of=st.sampled_from([200, 200, 200, 400, 422, 500]))
@ANY_TIME
def test_any_json_from_a_server_is_a_completion_or_a_clear_error(
    running: Running,
    connection: httpx2.Client,
    local: Scripted,
    strong: Scripted,
    at_local: Any,
    at_strong: Any,
    status_of: int,
) -> None:
    local.answer, strong.answer = (lambda asked: sends(at_local)), (lambda asked: sends(at_strong, status_of))
    response = connection.post(f"{running.url}/chat/completions", json=body())
    assert response.status_code in (200, 400, 502)
    found = json.loads(response.content, parse_constant=pytest.fail)
    if response.status_code == 200:
        assert found["calibsft"].keys() == {
            "decision",
            "reason",
            "confidence",
            "threshold",
            "guarantee",
            "policy",
            "id",
        }
        assert found["choices"]
    else:
        assert isinstance(found["error"]["message"], str)


@given(sent=st.lists(REPLY, max_size=3), done=st.booleans(), cut=st.booleans())
@ANY_TIME
def test_any_json_in_a_stream_is_passed_on_or_ends_it(
    running: Running,
    connection: httpx2.Client,
    local: Scripted,
    strong: Scripted,
    sent: list[Any],
    done: bool,
    cut: bool,
) -> None:
    local.answer = lambda asked: says("malformed")
    strong.answer = lambda asked: streams(*sent, done=done, cut=cut)
    response = connection.post(f"{running.url}/chat/completions", json=body(stream=True))
    assert response.status_code == 200
    *given, last, nothing = response.content.split(b"\n\n")
    assert nothing == b""
    chunks = [json.loads(one.removeprefix(b"data: "), parse_constant=pytest.fail) for one in given]
    assert all(isinstance(one, dict) for one in chunks)
    assert last == b"data: [DONE]" or "error" in json.loads(last.removeprefix(b"data: "))


@given(content=st.binary(max_size=100))
@ANY_TIME
def test_any_bytes_from_a_server_are_a_clear_error(
    running: Running, connection: httpx2.Client, local: Scripted, strong: Scripted, content: bytes
) -> None:
    local.answer = lambda asked: Sent(raw=content)
    strong.answer = lambda asked: Sent(200, [content])
    response = connection.post(f"{running.url}/chat/completions", json=body())
    assert (response.status_code, response.json()["error"]["code"]) == (502, "upstream_reply")
