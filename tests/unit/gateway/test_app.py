"""The gateway as a process between a client and two scripted servers: what the client gets, and what is counted and logged."""

import json
import select
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from prometheus_client.parser import text_string_to_metric_families

from calibsft.gateway.completions import ABSTENTION
from calibsft.responses.formats import get_format, messages
from gateway_process import Running, gateway, policy_file
from scripted_server import (
    ANSWER,
    EVENTS,
    PATIENCE,
    QUESTION,
    THOUGHT,
    Asked,
    Scripted,
    Sent,
    chats,
    chunk,
    completion,
    confident,
    event,
    fails,
    one_after_another,
    says,
    sends,
    streams,
)

LOCAL_KEY, STRONG_KEY, TOKEN = "sk-local-canary-1", "sk-strong-canary-2", "token-canary-3"
BEARER = {"authorization": f"Bearer {TOKEN}"}
STRONG_ANSWER = "canary-strong-answer"
# Whatever a client or a model says in these tests, and every secret: none of it belongs in a log.
CANARIES = ("canary", "57*77", "127.0.0.1:1/")
FIELDS = {"decision", "reason", "confidence", "threshold", "guarantee", "policy", "id"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gateway")


@pytest.fixture
def local(local_server: Scripted) -> Scripted:
    """States a high confidence, unless a test says otherwise."""
    local_server.reset(lambda asked: says(confident("0.95")))
    return local_server


@pytest.fixture
def strong(strong_server: Scripted) -> Scripted:
    strong_server.reset(chats(STRONG_ANSWER))
    return strong_server


@contextmanager
def watched(*arguments: Any, **options: Any) -> Iterator[Running]:
    """A gateway whose log holds no text, no secret and no surprise, whatever the tests did with it."""
    with gateway(*arguments, **options) as found:
        yield found
        log = found.said()
    assert not [canary for canary in CANARIES if canary in log]
    assert "Traceback" not in log and "unexpected" not in log


@pytest.fixture(scope="module")
def deferring(folder: Path, local_server: Scripted, strong_server: Scripted) -> Iterator[Running]:
    """Defers below 0.50, also when the local model fails; has keys and a token."""
    keys = {
        "CALIBSFT_LOCAL_API_KEY": LOCAL_KEY,
        "OPENAI_API_KEY": STRONG_KEY,
        "CALIBSFT_SERVE_TOKEN": TOKEN,
    }
    rules = policy_file(folder, model="my-model")
    with watched(rules, local_server.url, strong_server.url, environment=keys, retries=1) as found:
        yield found


@pytest.fixture(scope="module")
def abstaining(folder: Path, local_server: Scripted) -> Iterator[Running]:
    """Abstains below 0.50, fails when the local model fails; no strong model, no keys, no token, one retry."""
    rules = policy_file(folder, otherwise="abstain")
    with watched(rules, local_server.url, local_model="l", retries=1, max_body=4096) as found:
        yield found


@pytest.fixture(scope="module")
def hasty(folder: Path, local_server: Scripted, strong_server: Scripted) -> Iterator[Running]:
    """Defers, waits two seconds for a reply, and asks again never."""
    with watched(policy_file(folder), local_server.url, strong_server.url, timeout=2, retries=0) as found:
        yield found


def ask(running: Running, **fields: Any) -> httpx2.Response:
    body = {"model": running.model, "messages": [{"role": "user", "content": QUESTION}], **fields}
    url = f"{running.url}/chat/completions"
    return httpx2.post(url, json=body, headers=BEARER, trust_env=False, timeout=PATIENCE)


def client(running: Running, token: str = TOKEN) -> openai.OpenAI:
    plain = httpx2.Client(trust_env=False)
    return openai.OpenAI(base_url=running.url, api_key=token, max_retries=0, http_client=plain)


def page(running: Running, path: str, method: str = "GET", **options: Any) -> httpx2.Response:
    return httpx2.request(
        method, running.url.removesuffix("/v1") + path, trust_env=False, timeout=PATIENCE, **options
    )


def events(response: httpx2.Response) -> list[Any]:
    """The data of a stream, which must be server-sent events to the last byte and end with the end mark."""
    assert response.headers["content-type"].startswith(EVENTS)
    *given, nothing = response.content.split(b"\n\n")
    assert nothing == b""
    assert all(one.startswith(b"data: ") and b"\n" not in one and b"\r" not in one for one in given)
    assert given[-1] == b"data: [DONE]"
    return [json.loads(one.removeprefix(b"data: ")) for one in given[:-1]]


def text_in(chunks: list[Any]) -> str:
    return "".join(one["choices"][0]["delta"].get("content") or "" for one in chunks if one["choices"])


def decided(response: httpx2.Response, field: dict[str, Any]) -> tuple[str, str]:
    """Decision and reason, after a look that field and headers say the same."""
    assert field.keys() == FIELDS
    headers = {name: value for name, value in response.headers.items() if name.startswith("x-calibsft-")}
    assert headers == {f"x-calibsft-{name}": str(value) for name, value in field.items() if value is not None}
    return field["decision"], field["reason"]


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# What clients get


def test_a_confident_answer_is_an_ordinary_completion(abstaining: Running, local: Scripted) -> None:
    response = ask(abstaining)
    found = response.json()
    assert response.status_code == 200
    assert found["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": ANSWER, "reasoning_content": THOUGHT},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ]
    assert (found["object"], found["model"]) == ("chat.completion", "upstream-model")
    assert found["id"] == f"chatcmpl-{response.headers['x-request-id']}"
    assert found["usage"] == {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    assert decided(response, found["calibsft"]) == ("answered", "confident")
    assert (found["calibsft"]["confidence"], found["calibsft"]["threshold"]) == (0.95, 0.5)


def test_the_same_in_pieces(abstaining: Running, local: Scripted) -> None:
    response = ask(abstaining, stream=True)
    first, last = events(response)
    assert first["choices"][0]["delta"] == {
        "role": "assistant",
        "content": ANSWER,
        "reasoning_content": THOUGHT,
    }
    assert (first["choices"][0]["finish_reason"], last["choices"][0]["finish_reason"]) == (None, "stop")
    assert decided(response, first["calibsft"]) == ("answered", "confident")
    assert "calibsft" not in last and "usage" not in first and "usage" not in last
    assert {first["object"], last["object"]} == {"chat.completion.chunk"}
    assert (first["id"], first["created"], first["model"]) == (last["id"], last["created"], last["model"])
    assert response.headers["cache-control"] == "no-cache"
    assert "stream" not in local.bodies[0], "the local model is not asked for a stream"


def test_a_stream_tells_its_usage_at_the_end_where_that_is_asked_for(
    abstaining: Running, local: Scripted
) -> None:
    *others, last = events(ask(abstaining, stream=True, stream_options={"include_usage": True}))
    assert last["choices"] == [] and last["usage"]["total_tokens"] == 18
    assert [one["usage"] for one in others] == [None, None]


def test_a_server_without_usage_leaves_it_out(abstaining: Running, local: Scripted) -> None:
    without = completion(confident("0.95"))
    without["usage"] = "none"
    local.answer = lambda asked: sends(without)
    assert "usage" not in ask(abstaining).json()
    last = events(ask(abstaining, stream=True, stream_options={"include_usage": True}))[-1]
    assert last["choices"] == [] and last["usage"] is None


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "text, reason",
    [(confident("0.49"), "not_confident"), (f"{confident('0.95')} {ANSWER}", "malformed"), ("", "malformed")],
)
def test_an_abstention_is_a_completion_that_holds_nothing_of_the_answer(
    abstaining: Running, local: Scripted, stream: bool, text: str, reason: str
) -> None:
    local.answer = lambda asked: says(text)
    response = ask(abstaining, stream=stream)
    assert response.status_code == 200
    found = events(response) if stream else [response.json()]
    said = text_in(found) if stream else found[0]["choices"][0]["message"]["content"]
    assert said == ABSTENTION
    assert decided(response, found[0]["calibsft"]) == ("abstained", reason)
    whole = response.text + str(response.headers)
    assert ANSWER not in whole and THOUGHT not in whole


def test_what_is_deferred_is_the_strong_models_own_completion(
    deferring: Running, local: Scripted, strong: Scripted
) -> None:
    local.answer = lambda asked: says(confident("0.49"))
    own = completion(STRONG_ANSWER, finish="length", refusal=None)
    own |= {"system_fingerprint": "fp", "service_tier": None}
    strong.answer = lambda asked: sends(own)
    response = ask(deferring, unknown=5, temperature=0.3)
    found = response.json()
    assert decided(response, found.pop("calibsft")) == ("deferred", "not_confident")
    assert found == own
    assert ANSWER not in response.text and THOUGHT not in response.text
    assert strong.bodies == [
        {
            "model": "strong-model",
            "messages": [{"role": "user", "content": QUESTION}],
            "unknown": 5,
            "temperature": 0.3,
        }
    ]
    assert "unknown" not in local.bodies[0] and local.bodies[0]["model"] == "scripted"
    assert local.bodies[0]["messages"] == messages(QUESTION, get_format("probability"))


def test_a_deferred_stream_is_the_strong_models_own(
    deferring: Running, local: Scripted, strong: Scripted
) -> None:
    local.answer = lambda asked: says("malformed")
    own = [
        chunk("ca", usage=None),
        chunk("na\u2028ry 😀\n\ndata: [DONE]\n\n"),
        chunk(None, "stop"),
        {"choices": [], "usage": {}},
    ]
    strong.answer = lambda asked: streams(*own)
    response = ask(deferring, stream=True, stream_options={"include_usage": True})
    found = events(response)
    assert decided(response, found[0].pop("calibsft")) == ("deferred", "malformed")
    assert found == own
    assert strong.bodies[0]["stream_options"] == {"include_usage": True}


USAGE = {"prompt_tokens": 30, "completion_tokens": 5, "total_tokens": 35}


@pytest.mark.parametrize("options", [None, {}, {"include_usage": False}, {"other": 1, "include_usage": None}])
def test_the_tokens_of_a_stream_are_counted_and_not_shown_unasked(
    deferring: Running, local: Scripted, strong: Scripted, options: Any
) -> None:
    before = metrics(deferring)
    local.answer = lambda asked: says("malformed")
    alone = {"choices": [], "usage": USAGE}
    strong.answer = lambda asked: streams(chunk("a"), chunk(None, "stop"), alone)
    found = events(ask(deferring, stream=True, stream_options=options))
    assert [one["choices"] != [] for one in found] == [True, True]
    assert strong.bodies[0]["stream_options"] == {**(options or {}), "include_usage": True}
    assert strong_tokens(before, metrics(deferring)) == {"prompt": 30, "completion": 5}


def strong_tokens(before: "Values", after: "Values") -> dict[str, float]:
    found = change(before, after, "calibsft_tokens_total")
    return {kind: count for (kind, server), count in found.items() if server == "strong"}


def test_of_counts_that_grow_the_last_is_taken_and_other_chunks_stay_as_they_are(
    deferring: Running, local: Scripted, strong: Scripted
) -> None:
    before = metrics(deferring)
    local.answer = lambda asked: says("malformed")
    grown = [{**USAGE, "completion_tokens": count} for count in (1, 2, 3)]
    own = [chunk("a", usage=grown[0]), chunk("b", usage=grown[1]), chunk(None, "stop", usage=grown[2])]
    strong.answer = lambda asked: streams(*own)
    found = events(ask(deferring, stream=True))
    del found[0]["calibsft"]
    assert found == own
    assert strong_tokens(before, metrics(deferring)) == {"prompt": 30, "completion": 3}


def test_tokens_of_a_stream_that_breaks_are_counted_as_far_as_they_are_known(
    deferring: Running, local: Scripted, strong: Scripted
) -> None:
    before = metrics(deferring)
    local.answer = lambda asked: says("malformed")
    strong.answer = lambda asked: streams(chunk("a", usage=USAGE), done=False)
    assert b"upstream_broken" in ask(deferring, stream=True).content
    assert strong_tokens(before, metrics(deferring)) == {"prompt": 30, "completion": 5}


def test_a_server_that_refuses_to_count_is_asked_without_from_then_on(
    folder: Path, local: Scripted, strong: Scripted
) -> None:
    def choosy(asked: Asked) -> Sent:
        return fails(400) if "stream_options" in asked.body else streams(chunk("a", "stop"))

    local.answer, strong.answer = (lambda asked: says("malformed")), choosy
    with watched(policy_file(folder), local.url, strong.url) as running:
        for _ in range(2):
            assert text_in(events(ask(running, stream=True))) == "a"
        refused = ask(running, stream=True, stream_options={"include_usage": True})
        assert refused.json()["error"]["code"] == "upstream_refused"
    assert ["stream_options" in body for body in strong.bodies] == [True, False, False, True]


def test_a_question_of_megabytes_is_asked_whole(abstaining: Running, local: Scripted) -> None:
    long = "x" * (3 << 20)
    assert ask(abstaining, messages=[{"role": "user", "content": long}]).status_code == 200
    assert local.bodies[0]["messages"] == messages(long, get_format("probability"))


def test_what_is_confident_never_reaches_the_strong_model(
    deferring: Running, local: Scripted, strong: Scripted
) -> None:
    assert ask(deferring).json()["calibsft"]["decision"] == "answered"
    assert not strong.asked


def test_a_stream_arrives_piece_by_piece(deferring: Running, local: Scripted, strong: Scripted) -> None:
    local.answer = lambda asked: says("malformed")
    arrived = threading.Event()

    def pieces() -> Iterator[bytes]:
        yield event(chunk("first"))
        assert arrived.wait(PATIENCE), "the first piece waits for the second"
        yield event(chunk("second", "stop")) + event("[DONE]")

    strong.answer = lambda asked: Sent(200, pieces(), EVENTS)
    with client(deferring).chat.completions.create(
        model=deferring.model, messages=[{"role": "user", "content": QUESTION}], stream=True
    ) as stream:
        found = [next(stream)]
        arrived.set()
        found += list(stream)
    assert [one.choices[0].delta.content for one in found] == ["first", "second"]


@pytest.mark.parametrize("stream", [False, True])
def test_the_official_client_reads_the_decision(
    deferring: Running, local: Scripted, strong: Scripted, stream: bool
) -> None:
    reply = client(deferring).chat.completions.create(
        model="my-model", messages=[{"role": "user", "content": QUESTION}], stream=stream
    )
    first = next(iter(reply)) if stream else reply
    assert first.calibsft["decision"] == "answered"


# What goes wrong upstream


@pytest.mark.parametrize("stream", [False, True])
def test_a_local_model_that_fails_is_deferred_where_the_policy_says_so(
    deferring: Running, local: Scripted, strong: Scripted, stream: bool
) -> None:
    local.answer = lambda asked: fails(404)
    response = ask(deferring, stream=stream)
    first = events(response)[0] if stream else response.json()
    assert decided(response, first["calibsft"]) == ("deferred", "local_failed")
    assert STRONG_ANSWER in (text_in(events(response)) if stream else response.text)


FAULTS: dict[str, tuple[Sent, int, str, type[openai.APIError]]] = {
    "refused": (fails(400, "too long"), 400, "upstream_refused", openai.BadRequestError),
    "unprocessable": (sends({"detail": "no"}, 422), 400, "upstream_refused", openai.BadRequestError),
    "key": (fails(401, f"{LOCAL_KEY} {STRONG_KEY}"), 502, "upstream_key", openai.InternalServerError),
    "missing": (fails(404), 502, "upstream_reply", openai.InternalServerError),
    "busy": (fails(429, retry_after="0"), 503, "upstream_busy", openai.InternalServerError),
    "fails": (fails(500), 502, "upstream_busy", openai.InternalServerError),
    "hangs up": (Sent(raw=b""), 502, "upstream_unreachable", openai.InternalServerError),
    "cut": (Sent(200, [b"{"], cut=True), 502, "upstream_unreachable", openai.InternalServerError),
    "not JSON": (sends(b"hello"), 502, "upstream_reply", openai.InternalServerError),
    "a list": (sends([]), 502, "upstream_reply", openai.InternalServerError),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("stream", [False, True])
def test_a_local_model_that_fails_is_an_error_where_the_policy_says_so(
    abstaining: Running, local: Scripted, fault: str, stream: bool
) -> None:
    reply, status, code, _ = FAULTS[fault]
    local.answer = lambda asked: reply
    response = ask(abstaining, stream=stream)
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (status, code)
    assert error["message"].startswith("the local model") and not [c for c in CANARIES if c in response.text]
    assert error["type"] == ("invalid_request_error" if status == 400 else "api_error")


def test_why_a_server_refuses_a_request_is_told_to_its_client_and_not_to_the_log(
    abstaining: Running, local: Scripted
) -> None:
    local.answer = lambda asked: fails(400, f"too long: {QUESTION} canary-refused")
    assert "canary-refused" in ask(abstaining).json()["error"]["message"]
    assert "canary-refused" not in abstaining.said()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_strong_model_that_fails_is_an_error_that_the_official_client_knows(
    deferring: Running, local: Scripted, strong: Scripted, fault: str
) -> None:
    reply, status, code, kind = FAULTS[fault]
    local.answer, strong.answer = (lambda asked: says("malformed")), (lambda asked: reply)
    with pytest.raises(kind) as raised:
        client(deferring).chat.completions.create(
            model="my-model", messages=[{"role": "user", "content": QUESTION}]
        )
    error = raised.value
    assert isinstance(error, openai.APIStatusError)
    assert (error.status_code, error.code) == (status, code)
    assert "the strong model" in str(error) and not [canary for canary in CANARIES if canary in str(error)]


@pytest.mark.parametrize("fault", ["refused", "key", "fails", "hangs up", "not JSON"])
def test_a_deferred_stream_that_cannot_begin_is_an_ordinary_error(
    deferring: Running, local: Scripted, strong: Scripted, fault: str
) -> None:
    reply, status, code, _ = FAULTS[fault]
    local.answer, strong.answer = (lambda asked: says("malformed")), (lambda asked: reply)
    response = ask(deferring, stream=True)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)


@pytest.mark.parametrize(
    "asked_for, told",
    [
        ("17", "17"),
        ("0", None),
        ("999999", "3600"),
        ("soon", None),
        ("-3", None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", None),
    ],
)
@pytest.mark.parametrize("status, stream", [(429, False), (429, True), (503, False)])
def test_a_client_is_told_how_long_a_busy_server_wants_to_be_left_alone(
    hasty: Running,
    local: Scripted,
    strong: Scripted,
    status: int,
    stream: bool,
    asked_for: str,
    told: str | None,
) -> None:
    local.answer = lambda asked: says("malformed")
    strong.answer = lambda asked: fails(status, retry_after=asked_for)
    response = ask(hasty, stream=stream)
    assert (response.status_code, response.json()["error"]["code"]) == (503, "upstream_busy")
    assert response.headers.get("retry-after") == told


def test_a_pause_until_a_date_is_told_in_seconds(hasty: Running, local: Scripted, strong: Scripted) -> None:
    local.answer = lambda asked: says("malformed")
    strong.answer = lambda asked: fails(
        429, retry_after=format_datetime(datetime.now(UTC) + timedelta(minutes=10), True)
    )
    assert 500 < int(ask(hasty).headers["retry-after"]) <= 600


BREAKS = {
    "ends early": streams(chunk("fi"), done=False),
    "error": streams(chunk("fi"), {"error": {"message": STRONG_KEY}}),
    "not JSON": streams(chunk("fi"), "canary"),
}


@pytest.mark.parametrize("case", BREAKS)
def test_a_deferred_stream_that_breaks_ends_with_an_error_event_and_no_end_mark(
    deferring: Running, local: Scripted, strong: Scripted, case: str
) -> None:
    local.answer, strong.answer = (lambda asked: says("malformed")), (lambda asked: BREAKS[case])
    response = ask(deferring, stream=True)
    *others, last, nothing = response.content.split(b"\n\n")
    assert nothing == b"" and b"[DONE]" not in response.content
    assert json.loads(last.removeprefix(b"data: "))["error"]["code"] == "upstream_broken"
    assert text_in([json.loads(one.removeprefix(b"data: ")) for one in others]) == "fi"
    assert STRONG_KEY not in response.text


def test_the_official_client_raises_what_breaks_a_stream(
    deferring: Running, local: Scripted, strong: Scripted
) -> None:
    arrived = threading.Event()

    def pieces() -> Iterator[bytes]:
        yield event(chunk("fi"))
        arrived.wait(PATIENCE)  # what comes together with the end of a connection may be lost

    local.answer = lambda asked: says("malformed")
    strong.answer = lambda asked: Sent(200, pieces(), EVENTS, cut=True)
    stream = client(deferring).chat.completions.create(
        model="my-model", messages=[{"role": "user", "content": QUESTION}], stream=True
    )
    assert next(stream).choices[0].delta.content == "fi"
    arrived.set()
    with pytest.raises(openai.APIError, match="strong model's server stopped in the middle"):
        next(stream)


def never(asked: Asked) -> Sent:
    asked.hung_up()
    return Sent(raw=b"")


def test_a_slow_local_model_is_deferred_and_a_slow_strong_one_is_a_timeout(
    hasty: Running, local: Scripted, strong: Scripted
) -> None:
    local.answer = never
    response = ask(hasty)
    assert decided(response, response.json()["calibsft"]) == ("deferred", "local_failed")
    local.answer, strong.answer = (lambda asked: says("malformed")), never
    response = ask(hasty)
    assert (response.status_code, response.json()["error"]["code"]) == (504, "upstream_timeout")


def test_a_server_that_fails_once_is_asked_again_and_that_is_counted(
    abstaining: Running, local: Scripted
) -> None:
    before = metrics(abstaining)
    local.answer = one_after_another(fails(500), says(confident("0.95")))
    assert ask(abstaining).status_code == 200
    assert change(before, metrics(abstaining), "calibsft_upstream_retries_total") == {("local",): 1}
    assert change(before, metrics(abstaining), "calibsft_upstream_failures_total") == {}
    assert len(local.chats) == 2


# Many clients


@pytest.fixture(scope="module")
def small(folder: Path, local_server: Scripted, strong_server: Scripted) -> Iterator[Running]:
    """Asks three questions at a time and lets four wait."""
    with watched(
        policy_file(folder), local_server.url, strong_server.url, local_model="l", concurrency=3, queue=4
    ) as found:
        yield found


def state(running: Running) -> tuple[float, float]:
    found = running.metrics()
    return found["calibsft_in_flight"], found["calibsft_waiting"]


def test_no_more_than_allowed_are_asked_at_once_and_no_more_than_allowed_wait(
    small: Running, local: Scripted
) -> None:
    release = threading.Event()

    def held(asked: Asked) -> Sent:
        release.wait(PATIENCE)
        return says(confident("0.95"))

    local.answer = held
    with ThreadPoolExecutor(7) as pool:
        try:
            asked = [pool.submit(ask, small) for _ in range(7)]
            until(lambda: state(small) == (3, 4))
            refused = ask(small)
        finally:
            release.set()
        assert [one.result().status_code for one in asked] == [200] * 7
    assert state(small) == (0, 0)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "busy")
    assert refused.headers["retry-after"] == "1"
    assert (local.most, len(local.chats)) == (3, 7)


def raw_request(running: Running, stream: bool) -> bytes:
    body = json.dumps(
        {"model": running.model, "messages": [{"role": "user", "content": QUESTION}], "stream": stream}
    )
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    return f"{head}\r\n\r\n{body}".encode()


def test_a_client_that_goes_away_takes_its_request_to_the_model_along(
    small: Running, local: Scripted, strong: Scripted
) -> None:
    gone: list[bool] = []

    def held(asked: Asked) -> Sent:
        gone.append(asked.hung_up())
        return Sent(raw=b"")

    local.answer = held
    clients = [small.connected() for _ in range(7)]
    for one in clients:
        one.sendall(raw_request(small, stream=False))
    until(lambda: state(small) == (3, 4) and len(local.chats) == 3)
    for one in clients[3:]:
        one.close()
    until(lambda: state(small) == (3, 0))
    for one in clients[:3]:
        one.close()
    until(lambda: state(small) == (0, 0) and gone == [True] * 3)
    assert small.count("calibsft_requests_total", 'status="499"') == 7
    local.answer = lambda asked: says(confident("0.95"))
    assert ask(small).status_code == 200
    assert len(local.chats) == 4
    assert not strong.asked, "a client that went away is no failure of the local model"


def test_a_client_that_leaves_a_stream_frees_its_place_and_its_tokens_stay_uncounted(
    small: Running, local: Scripted, strong: Scripted
) -> None:
    gone, before = threading.Event(), small.count("calibsft_uncounted_total")

    def endless(asked: Asked) -> Iterator[bytes]:
        yield event(chunk("first"))
        if asked.hung_up():
            gone.set()

    local.answer = lambda asked: says("malformed")
    strong.answer = lambda asked: Sent(200, endless(asked), EVENTS)
    with small.connected() as one:
        one.sendall(raw_request(small, stream=True))
        received = b""
        while b"first" not in received:
            received += one.recv(1 << 16)
        assert state(small) == (1, 0)
    assert gone.wait(PATIENCE)
    until(lambda: state(small) == (0, 0))
    assert small.count("calibsft_uncounted_total", 'upstream="strong"') == before + 1


# What is served besides


def test_health_says_which_policy_is_served(deferring: Running) -> None:
    response = page(deferring, "/healthz")
    assert response.status_code == 200
    policy_id = response.json()["policy"]
    promise = "at most 10 % of accuracy is lost with probability 0.95 or more"
    assert response.json() == {"status": "ok", "policy": policy_id, "promise": promise, "watch": None}
    assert len(policy_id) == 12
    assert policy_id in deferring.said()


def test_the_one_model_is_listed(deferring: Running, abstaining: Running) -> None:
    (model,) = client(deferring).models.list().data
    assert (model.id, model.object, model.owned_by) == ("my-model", "model", "calibsft")
    assert client(deferring).models.retrieve("my-model") == model
    with pytest.raises(openai.NotFoundError):
        client(deferring).models.retrieve("other")
    assert [one.id for one in client(abstaining).models.list().data] == ["calibsft"]


@pytest.mark.parametrize(
    "method, path, status",
    [
        ("GET", "/", 404),
        ("GET", "/v1", 404),
        ("POST", "/v1/completions", 404),
        ("POST", "/v1/embeddings", 404),
        ("POST", "/v1/chat/completions/", 404),
        ("GET", "/healthz/", 404),
        ("GET", "/../etc/passwd", 404),
        ("GET", "/v1/chat/completions", 405),
        ("DELETE", "/v1/models", 405),
        ("PUT", "/metrics", 405),
    ],
)
def test_what_is_not_there_is_an_error_of_the_api(
    deferring: Running, method: str, path: str, status: int
) -> None:
    response = page(deferring, path, method, headers=BEARER)
    error = response.json()["error"]
    assert response.status_code == status and error.keys() == {"message", "type", "param", "code"}
    assert ("allow" in response.headers) == (status == 405)
    assert error["code"] == {404: "not_found", 405: "method_not_allowed"}[status]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": ""},
        {"authorization": "Bearer"},
        {"authorization": "Bearer wrong"},
        {"authorization": TOKEN},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": f"Bearer {TOKEN[:-1]}"},
        {"authorization": f"Bearer {TOKEN}x"},
        {"authorization": "Bearer \xff".encode("latin-1")},
        {"x-api-key": TOKEN},
    ],
)
@pytest.mark.parametrize(
    "method, path", [("POST", "/v1/chat/completions"), ("GET", "/v1/models"), ("GET", "/v1/models/my-model")]
)
def test_without_the_token_nothing_is_answered(
    deferring: Running, local: Scripted, method: str, path: str, headers: Any
) -> None:
    response = page(deferring, path, method, headers={"content-type": "application/json", **headers})
    assert (response.status_code, response.json()["error"]["code"]) == (401, "invalid_api_key")
    assert not local.asked


def test_the_official_client_knows_a_wrong_token(deferring: Running, local: Scripted) -> None:
    with pytest.raises(openai.AuthenticationError):
        client(deferring, "wrong").models.list()
    assert client(deferring, TOKEN).models.list().data


@pytest.mark.parametrize("path", ["/healthz", "/metrics"])
def test_a_monitor_needs_no_token(deferring: Running, path: str) -> None:
    assert page(deferring, path).status_code == 200


def test_keys_go_to_their_own_server_and_nothing_of_the_clients_headers_does(
    deferring: Running, local: Scripted, strong: Scripted
) -> None:
    local.answer = lambda asked: says("malformed")
    sent = {**BEARER, "cookie": "canary", "x-canary": "canary", "openai-organization": "canary"}
    body = {"model": "my-model", "messages": [{"role": "user", "content": QUESTION}]}
    assert page(deferring, "/v1/chat/completions", "POST", json=body, headers=sent).status_code == 200
    (to_local,), (to_strong,) = local.chats, strong.chats
    assert to_local.headers["authorization"] == f"Bearer {LOCAL_KEY}"
    assert to_strong.headers["authorization"] == f"Bearer {STRONG_KEY}"
    for one in (to_local, to_strong):
        assert TOKEN not in str(one.headers) and not {"cookie", "x-canary"} & one.headers.keys()
        assert "openai-organization" not in one.headers
    assert STRONG_KEY not in str([one.headers for one in local.asked])


PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
ZEROS = f"00-{'0' * 32}-00f067aa0ba902b7-01"


@pytest.mark.parametrize("stream", [False, True])
def test_a_clients_trace_goes_to_both_servers(
    deferring: Running, local: Scripted, strong: Scripted, stream: bool
) -> None:
    local.answer = lambda asked: says("malformed")
    traced(deferring, stream, ("traceparent", PARENT), ("tracestate", "a=1"), ("tracestate", "t@b=x y"))
    for one in (local.chats[0], strong.chats[0]):
        assert (one.headers["traceparent"], one.headers["tracestate"]) == (PARENT, "a=1,t@b=x y")


def traced(running: Running, stream: bool, *headers: tuple[str, str]) -> None:
    body = {"model": running.model, "messages": [{"role": "user", "content": QUESTION}], "stream": stream}
    sent = [*BEARER.items(), ("content-type", "application/json"), *headers]
    response = page(running, "/v1/chat/completions", "POST", content=json.dumps(body), headers=sent)
    assert response.status_code == 200


@pytest.mark.parametrize(
    "parents",
    [
        (),
        ("",),
        ("canary",),
        (PARENT, PARENT),
        (PARENT.upper(),),
        (f"{PARENT}-more",),
        (f"ff{PARENT[2:]}",),
        (ZEROS,),
        (PARENT.replace("00f067aa0ba902b7", "0" * 16),),
        (f"cc{PARENT[2:]}-{'x' * 300}",),
    ],
    ids=lambda parents: ",".join(parents)[:20] or "none",
)
def test_what_is_no_trace_is_left_out(abstaining: Running, local: Scripted, parents: tuple[str, ...]) -> None:
    traced(abstaining, False, *(("traceparent", one) for one in parents), ("tracestate", "a=1"))
    assert not {"traceparent", "tracestate"} & local.chats[0].headers.keys()


@pytest.mark.parametrize(
    "state", ["A=1", "a", "a=1,a=2", "a=b=c", ",", f"a={'x' * 600}", ",".join(f"k{n}=v" for n in range(33))]
)
def test_a_wrong_state_is_left_out_of_a_right_trace(abstaining: Running, local: Scripted, state: str) -> None:
    later = f"cc{PARENT[2:]}-what"
    traced(abstaining, False, ("traceparent", later), ("tracestate", state))
    assert local.chats[0].headers["traceparent"] == later and "tracestate" not in local.chats[0].headers


# Metrics and log

Values = dict[tuple[str, tuple[str, ...]], float]


def metrics(running: Running) -> Values:
    """All samples, each by its name and the values of its labels, which are sorted by name."""
    response = page(running, "/metrics")
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }


def change(before: Values, after: Values, name: str) -> dict[tuple[str, ...], float]:
    changes = {key: value - before.get(key, 0) for key, value in after.items() if key[0] == name}
    return {labels: difference for (_, labels), difference in changes.items() if difference}


def test_everything_is_counted(deferring: Running, local: Scripted, strong: Scripted) -> None:
    before = metrics(deferring)
    texts = [confident("0.95"), confident("0.55"), confident("0.15"), "malformed"]
    local.answer = one_after_another(*map(says, texts), fails(404))
    for number in range(5):
        assert ask(deferring, stream=number == 1).status_code == 200
    strong.answer = lambda asked: fails(404)
    assert ask(deferring).status_code == 502
    assert ask(deferring, model="other").status_code == 404
    after = metrics(deferring)

    def changed(name: str) -> dict[tuple[str, ...], float]:
        return change(before, after, f"calibsft_{name}")

    assert changed("requests_total") == {("200",): 5, ("502",): 1, ("404",): 1}
    assert changed("request_seconds_count") == {(): 7}
    assert changed("decisions_total") == {
        ("answered", "confident"): 2,
        ("deferred", "not_confident"): 1,
        ("deferred", "malformed"): 1,
        ("deferred", "local_failed"): 1,
    }
    assert changed("upstream_failures_total") == {("reply", "local"): 2, ("reply", "strong"): 1}
    assert changed("upstream_retries_total") == {}
    assert changed("upstream_seconds_count") == {("local",): 4, ("strong",): 3}
    assert changed("tokens_total") == {
        ("prompt", "local"): 44,
        ("completion", "local"): 28,
        ("prompt", "strong"): 33,
        ("completion", "strong"): 21,
    }
    assert changed("uncounted_total") == {}
    assert changed("confidence_count") == {(): 3}
    assert changed("confidence_sum")[()] == pytest.approx(1.65)
    buckets = changed("confidence_bucket")
    assert [buckets.get((edge,), 0) for edge in ("0.1", "0.2", "0.5", "0.6", "0.9", "1.0")] == [
        0,
        1,
        1,
        2,
        2,
        3,
    ]
    assert (after[("calibsft_in_flight", ())], after[("calibsft_waiting", ())]) == (0, 0)
    assert after[("calibsft_drifted", ())] == 0


def test_why_a_response_is_malformed_is_counted_and_logged_without_its_text(
    abstaining: Running, local: Scripted
) -> None:
    before = metrics(abstaining)
    texts = [
        "canary",
        confident("0.95").replace("</think>", ""),
        confident("canary"),
        confident("0.95") + ANSWER,
    ]
    local.answer = one_after_another(*map(says, texts), sends(completion("canary", finish="length")))
    ids = [ask(abstaining).headers["x-request-id"] for _ in range(5)]
    reasons = ["missing_think_end", "missing_think_end", "bad_confidence", "trailing_text", "truncated"]
    assert change(before, metrics(abstaining), "calibsft_malformed_total") == {
        (reason,): reasons.count(reason) for reason in reasons
    }
    for reason, request_id in zip(reasons, ids, strict=True):
        assert f"local response malformed ({reason}), chatcmpl-{request_id}\n" in abstaining.said()


def test_a_line_of_the_log_tells_status_decision_time_and_id_only(
    abstaining: Running, local: Scripted
) -> None:
    response = ask(abstaining)
    (line,) = [one for one in abstaining.said().splitlines() if response.headers["x-request-id"] in one]
    assert " INFO 200 answered (confident) " in line
    wrong = ask(abstaining, model="canary")
    (line,) = [one for one in abstaining.said().splitlines() if wrong.headers["x-request-id"] in one]
    assert " INFO 404 " in line and line.endswith(wrong.headers["x-request-id"])


def test_ids_are_the_gateways_own(abstaining: Running, local: Scripted) -> None:
    headers = {"x-request-id": "mine"}
    body = {"model": abstaining.model, "messages": [{"role": "user", "content": QUESTION}]}
    response = page(abstaining, "/v1/chat/completions", "POST", json=body, headers=headers)
    assert response.headers["x-request-id"] != "mine"


def test_a_socket_that_is_not_closed_is_used_again(abstaining: Running, local: Scripted) -> None:
    with abstaining.connected() as one:
        for _ in range(2):
            one.sendall(raw_request(abstaining, stream=True))
            received = b""
            while not received.endswith(b"0\r\n\r\n"):
                assert select.select([one], [], [], PATIENCE)[0]
                received += one.recv(1 << 16)
            assert received.startswith(b"HTTP/1.1 200 OK")


def test_a_page_can_be_asked_for_its_head_alone(deferring: Running) -> None:
    response = page(deferring, "/healthz", "HEAD")
    assert response.status_code == 200 and not response.content
