"""A server behind the gateway, over real sockets: what it is sent, and what becomes of every way in which it can fail."""

import asyncio
import gzip
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from calibsft.gateway import upstream as upstream_module
from calibsft.gateway.failures import UpstreamFailure
from calibsft.gateway.replies import text_of
from calibsft.gateway.upstream import LARGEST_REPLY, LONGEST_PAUSE, Upstream
from calibsft.served import pauses as pauses_module
from scripted_server import (
    EVENTS,
    Asked,
    Scripted,
    Sent,
    chunk,
    completion,
    event,
    fails,
    nobody,
    one_after_another,
    says,
    scripted_server,
    sends,
    streams,
)

KEY = "sk-very-secret-0123456789"
BODY = {"model": "m", "messages": [{"role": "user", "content": "x"}]}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    with scripted_server(lambda asked: says("said")) as found:
        yield found


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long it would have waited before each repetition."""
    waited: list[float] = []
    sleep = asyncio.sleep

    async def noted(seconds: float) -> None:
        waited.append(seconds)
        await sleep(0)

    monkeypatch.setattr(upstream_module.asyncio, "sleep", noted)
    return waited


class Used:
    """One connection to a server, and how often it asked again."""

    def __init__(self, url: str, model: str | None = "m", **options: Any) -> None:
        self.again = 0
        self._url, self._model = url, model
        self._options = {"key": KEY, "timeout": 30.0, "retries": 2, **options}

    def _noted(self, name: str) -> None:
        assert name == "strong"
        self.again += 1

    def run(self, work: Callable[[Upstream], Any]) -> Any:
        async def session() -> Any:
            options = self._options
            found = Upstream(
                "strong",
                self._url,
                self._model,
                options["key"],
                options["timeout"],
                options["retries"],
                self._noted,
            )
            try:
                return await work(found)
            finally:
                await found.close()

        return asyncio.run(session())

    def complete(self) -> Any:
        return self.run(lambda found: found.complete(BODY))

    def stream(self) -> list[str]:
        async def all_of(found: Upstream) -> list[str]:
            with ExitStack() as held:
                chunks = await found.stream({**BODY, "stream": True}, held)
                return [chunk.data async for chunk in chunks]

        return self.run(all_of)

    def failure(self, streamed: bool = False) -> UpstreamFailure:
        with pytest.raises(UpstreamFailure) as raised:
            self.stream() if streamed else self.complete()
        message = raised.value.message
        assert "strong model" in message and "\n" not in message and ";" in message
        assert KEY not in message
        return raised.value


def told(failure: UpstreamFailure) -> tuple[int, str]:
    return failure.status, failure.kind


def test_a_completion_is_asked_for_once_with_the_key_and_nothing_of_the_environment(server: Scripted) -> None:
    assert text_of(Used(server.url).complete()) == "said"
    (asked,) = server.asked
    assert (asked.method, asked.path, asked.body) == ("POST", "/v1/chat/completions", BODY)
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.headers["content-type"] == "application/json"
    assert "cookie" not in asked.headers


def test_without_a_key_none_is_sent(server: Scripted) -> None:
    Used(server.url, key="none").complete()
    assert "authorization" not in server.asked[0].headers


@pytest.mark.parametrize("ending", ["", "/", "//"])
def test_a_slash_at_the_end_of_the_url_does_not_matter(server: Scripted, ending: str) -> None:
    Used(server.url + ending).complete()
    assert server.asked[0].path == "/v1/chat/completions"


def test_cookies_are_not_kept(server: Scripted) -> None:
    server.answer = lambda asked: sends(completion("said"), set_cookie="who=me; Path=/")

    async def twice(found: Upstream) -> None:
        await found.complete(BODY)
        await found.complete(BODY)

    Used(server.url.replace("127.0.0.1", "localhost")).run(twice)  # an address alone has no cookies anyway
    assert all("cookie" not in asked.headers for asked in server.asked) and len(server.asked) == 2


def test_the_only_listed_model_is_asked_for_once(server: Scripted) -> None:
    async def twice(found: Upstream) -> tuple[str, str]:
        return await found.model(), await found.model()

    assert Used(server.url, None).run(twice) == ("scripted", "scripted")
    assert [(asked.method, asked.path) for asked in server.asked] == [("GET", "/v1/models")]


def test_a_model_that_is_named_is_not_looked_up(server: Scripted) -> None:
    assert Used(server.url, "mine").run(lambda found: found.model()) == "mine"
    assert not server.asked


@pytest.mark.parametrize(
    "listed",
    [
        {"data": []},
        {"data": [{"id": "a"}, {"id": "b"}]},
        {"data": [{"id": 1}]},
        {"data": ["a"]},
        {"data": {"id": "a"}},
        {},
        {"models": ["a"]},
    ],
)
def test_a_server_that_does_not_list_one_model_wants_its_name(server: Scripted, listed: Any) -> None:
    server.models = sends(listed)
    used = Used(server.url, None)
    with pytest.raises(UpstreamFailure, match="--strong-model") as raised:
        used.run(lambda found: found.model())
    assert told(raised.value) == (502, "model")


# What comes once and would come again: not asked again.
LASTING = {
    "key refused": (fails(401, "no"), 502, "key"),
    "key forbidden": (fails(403, "no"), 502, "key"),
    "no such page": (fails(404, "no"), 502, "reply"),
    "no such method": (fails(405, "no"), 502, "reply"),
    "redirect": (sends({}, 302, location="http://127.0.0.1:1/"), 502, "reply"),
    "teapot": (sends(b"", 418), 502, "reply"),
    "created": (sends(completion("x"), 201), 502, "reply"),
    "no content": (Sent(raw=b"HTTP/1.1 204 No Content\r\n\r\n"), 502, "reply"),
    "bad request": (fails(400, "too long"), 400, "refused"),
    "too large": (fails(413, "no"), 400, "refused"),
    "wrong type": (fails(415, "no"), 400, "refused"),
    "unprocessable": (sends({"detail": "no"}, 422), 400, "refused"),
    "not JSON": (sends(b"<html>hello</html>"), 502, "reply"),
    "not UTF-8": (sends(b'{"choices": "\xff"}'), 502, "reply"),
    "nothing": (sends(b""), 502, "reply"),
    "a list": (sends([completion("x")]), 502, "reply"),
    "null": (sends(None), 502, "reply"),
    "a number": (sends(7), 502, "reply"),
    "NaN": (sends(b'{"choices":[{"message":{"content":"x"}}],"usage":NaN}'), 502, "reply"),
    "beyond all bounds": (sends(b'{"choices":[{"message":{"content":"x"}}],"usage":1e999}'), 502, "reply"),
    "deep": (sends(b'{"a":' + b"[" * 50_000 + b"]" * 50_000 + b"}"), 502, "reply"),
    "no choices": (sends({"choices": []}), 502, "reply"),
    "an error with a good status": (sends({"error": {"message": "no"}}), 502, "reply"),
}


@pytest.mark.parametrize("case", LASTING)
def test_what_would_come_again_is_not_asked_again(server: Scripted, case: str) -> None:
    reply, status, kind = LASTING[case]
    server.answer = lambda asked: reply
    used = Used(server.url)
    assert told(used.failure()) == (status, kind)
    assert len(server.asked) == 1 and used.again == 0


PASSING = {
    "busy": (fails(429), 503, "busy"),
    "unavailable": (fails(503), 503, "busy"),
    "fails": (fails(500), 502, "busy"),
    "bad gateway": (sends(b"<html>", 502), 502, "busy"),
    "gateway timeout": (sends(b"", 504), 502, "busy"),
    "request timeout": (fails(408), 502, "busy"),
    "too early": (fails(425), 502, "busy"),
    "hangs up": (Sent(raw=b""), 502, "unreachable"),
    "hangs up in the status": (Sent(raw=b"HTTP/1.1 20"), 502, "unreachable"),
    "hangs up in the reply": (Sent(200, [b'{"choices": ['], cut=True), 502, "unreachable"),
    "speaks something else": (Sent(raw=b"\0\1\2\r\n\r\n"), 502, "unreachable"),
    "endless header": (Sent(raw=b"HTTP/1.1 200 OK\r\nx: " + b"y" * 100_000), 502, "unreachable"),
    "says a wrong length": (
        Sent(raw=b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{}"),
        502,
        "unreachable",
    ),
}


@pytest.mark.parametrize("case", PASSING)
def test_what_may_pass_is_asked_again_as_often_as_allowed(
    server: Scripted, pauses: list[float], case: str
) -> None:
    reply, status, kind = PASSING[case]
    server.answer = lambda asked: reply
    used = Used(server.url, retries=2)
    assert told(used.failure()) == (status, kind)
    assert (len(server.asked), used.again, len(pauses)) == (3, 2, 2)


@pytest.mark.parametrize("case", PASSING)
def test_what_has_passed_is_answered(server: Scripted, pauses: list[float], case: str) -> None:
    server.answer = one_after_another(PASSING[case][0], says("said"))
    used = Used(server.url, retries=1)
    assert text_of(used.complete()) == "said"
    assert (len(server.asked), used.again) == (2, 1)


def test_a_stream_is_asked_for_again_until_it_begins(server: Scripted, pauses: list[float]) -> None:
    server.answer = one_after_another(fails(500), Sent(raw=b""), streams(chunk("a", "stop")))
    used = Used(server.url)
    assert used.stream() == [json.dumps(chunk("a", "stop"))]
    assert used.again == 2


def test_with_no_retries_it_is_asked_once(server: Scripted) -> None:
    server.answer = lambda asked: fails(500)
    used = Used(server.url, retries=0)
    used.failure()
    assert (len(server.asked), used.again) == (1, 0)


def test_pauses_grow_and_are_random_in_part(
    server: Scripted, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answer = lambda asked: fails(500)
    monkeypatch.setattr(pauses_module, "random", lambda: 1.0)
    Used(server.url, retries=7).failure()
    assert pauses == [0.25, 0.5, 1, 2, 4, LONGEST_PAUSE, LONGEST_PAUSE]
    pauses.clear()
    monkeypatch.setattr(pauses_module, "random", lambda: 0.0)
    Used(server.url, retries=2).failure()
    assert pauses == [0.125, 0.25]


@pytest.mark.parametrize(
    "asked_for, pause",
    [
        ("3", 3),
        ("0", 0.125),
        ("99999", LONGEST_PAUSE),
        ("9" * 400, LONGEST_PAUSE),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.125),
        ("Wed, 21 Oct 2995 07:28:00 GMT", LONGEST_PAUSE),
        ("-5", 0.125),
        ("1e9", 0.125),
        ("²", 0.125),
    ],
)
def test_a_server_that_asks_for_a_pause_gets_it_within_reason(
    server: Scripted, pauses: list[float], monkeypatch: pytest.MonkeyPatch, asked_for: str, pause: float
) -> None:
    monkeypatch.setattr(pauses_module, "random", lambda: 0.0)
    server.answer = one_after_another(fails(429, retry_after=asked_for), says("said"))
    Used(server.url).complete()
    assert pauses == [pause]


def test_nobody_there_is_asked_again_and_then_cannot_be_reached(pauses: list[float]) -> None:
    with nobody() as url:
        used = Used(url)
        failure = used.failure()
    assert told(failure) == (502, "unreachable") and "cannot be reached" in failure.message
    assert used.again == 2


@pytest.mark.parametrize("url", ["http://no-such-host.invalid/v1", "http://127.0.0.1:1/v1"])
def test_nowhere_is_unreachable(url: str, pauses: list[float]) -> None:
    assert told(Used(url).failure()) == (502, "unreachable")


def slowly(release: threading.Event, *first: bytes) -> Iterator[bytes]:
    """The first parts at once, and then nothing until the test is over."""
    yield from first
    release.wait(60)


@pytest.fixture
def release() -> Iterator[threading.Event]:
    found = threading.Event()
    yield found
    found.set()


@pytest.mark.parametrize("first", [(), (b'{"choices"',)], ids=["never", "half"])
def test_a_reply_that_takes_too_long_is_given_up_and_not_asked_again(
    server: Scripted, release: threading.Event, first: tuple[bytes, ...]
) -> None:
    server.answer = lambda asked: Sent(200, slowly(release, *first))
    used = Used(server.url, timeout=0.2)
    failure = used.failure()
    assert told(failure) == (504, "timeout") and "0.2 seconds" in failure.message
    assert (len(server.asked), used.again) == (1, 0)


def test_a_reply_in_drops_is_given_up_too(server: Scripted, release: threading.Event) -> None:
    def drops() -> Iterator[bytes]:
        while not release.wait(0.05):
            yield b" "

    server.answer = lambda asked: Sent(200, drops())
    assert told(Used(server.url, timeout=0.3).failure()) == (504, "timeout")


def test_a_server_that_accepts_and_says_nothing_is_too_slow(
    server: Scripted, release: threading.Event
) -> None:
    def silent(asked: Asked) -> Sent:
        release.wait(60)
        return Sent(raw=b"")

    server.answer = silent
    for streamed in (False, True):
        assert told(Used(server.url, timeout=0.2).failure(streamed)) == (504, "timeout")


@pytest.mark.parametrize("status", [200, 500])
def test_an_endless_reply_is_given_up(server: Scripted, status: int, pauses: list[float]) -> None:
    hung_up = threading.Event()

    def endless() -> Iterator[bytes]:
        try:
            yield from itertools.repeat(b" " * (1 << 16))
        finally:
            hung_up.set()

    server.answer = lambda asked: Sent(status, endless())
    assert told(Used(server.url, retries=0).failure()) == (502, "reply")
    assert hung_up.wait(60)


def test_a_small_reply_that_unfolds_into_an_endless_one_is_given_up(server: Scripted) -> None:
    folded = gzip.compress(b" " * (LARGEST_REPLY + (1 << 20)))
    assert len(folded) < 100_000
    server.answer = lambda asked: Sent(200, [folded], headers={"content-encoding": "gzip"})
    assert told(Used(server.url).failure()) == (502, "reply")


def test_a_large_reply_is_read_whole(server: Scripted) -> None:
    text = "x" * (LARGEST_REPLY - 1000)
    server.answer = lambda asked: says(text)
    assert text_of(Used(server.url).complete()) == text


@pytest.mark.parametrize(
    "reply, said",
    [
        (fails(400, "context is 5 tokens"), "(400: context is 5 tokens)"),
        (sends({"error": "plain"}, 400), "(400: plain)"),
        (sends({"detail": "one text"}, 422), "(422: one text)"),
        (sends({"message": "older servers"}, 400), "(400: older servers)"),
        (sends({"detail": [{"loc": ["body"], "msg": "x"}]}, 422), "(422)"),
        (sends({"error": {"message": 5}}, 400), "(400)"),
        (sends({"error": None}, 400), "(400)"),
        (sends({"error": []}, 400), "(400)"),
        (sends(b"plain text", 400), "(400)"),
        (sends(b"", 400), "(400)"),
        (sends([], 400), "(400)"),
        (sends("a text", 400), "(400: a text)"),
        (fails(400, "two\r\nlines\t\x1b[31m\u202ehere"), "(400: two lines [31m here)"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_refused_request_says_why_in_one_line(server: Scripted, reply: Sent, said: str) -> None:
    server.answer = lambda asked: reply
    assert said in Used(server.url).failure().message


def test_a_long_reason_is_cut(server: Scripted) -> None:
    server.answer = lambda asked: fails(400, "x" * 10_000)
    assert len(Used(server.url).failure().message) < 400


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422, 429, 500, 503])
@pytest.mark.parametrize("echo", [KEY, KEY[:9], KEY[::-1], f"Bearer {KEY}"])
def test_no_failure_repeats_the_key(server: Scripted, status: int, echo: str) -> None:
    server.answer = lambda asked: fails(status, f"wrong key {echo}")
    message = Used(server.url, retries=0).failure().message
    assert echo not in message and "wrong key" not in message
    if status in (401, 403):
        assert "refuses the gateway's API key" in message


def test_redirects_are_not_followed(server: Scripted) -> None:
    with scripted_server() as other:
        for status in (301, 302, 303, 307, 308):
            server.answer = lambda asked, status=status: sends({}, status, location=other.url)
            assert f"answers {status}" in Used(server.url).failure().message
        assert not other.asked


def test_a_stream_gives_its_chunks_as_they_are(server: Scripted) -> None:
    chunks = [
        chunk("a"),
        chunk("ü😀\u2028"),
        chunk(None, "stop"),
        {"choices": [], "usage": {"total_tokens": 1}},
    ]
    server.answer = lambda asked: streams(*chunks)
    assert [json.loads(data) for data in Used(server.url).stream()] == chunks
    assert server.asked[0].body["stream"] is True


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_a_stream_may_come_in_pieces_of_any_size_with_any_line_ends(
    server: Scripted, size: int, end: bytes
) -> None:
    lines = [b": hello", b"", b"event: x", b"id: 1", b"data:" + json.dumps(chunk("ü", "stop")).encode(), b""]
    content = end.join([*lines, b"data: [DONE]", b"", b""]).replace(b"\\u00fc", "ü".encode())
    pieces = [content[start : start + size] for start in range(0, len(content), size)]
    server.answer = lambda asked: Sent(200, pieces, EVENTS)
    assert [json.loads(data) for data in Used(server.url).stream()] == [chunk("ü", "stop")]


@pytest.mark.parametrize("kind", [EVENTS, "text/event-stream; charset=utf-8"])
def test_what_follows_the_end_mark_is_not_read(server: Scripted, kind: str) -> None:
    content = event(chunk("a")) + event("[DONE]") + event(chunk("b"))
    server.answer = lambda asked: Sent(200, [content], kind)
    assert [json.loads(data) for data in Used(server.url).stream()] == [chunk("a")]


def test_a_stream_without_its_end_mark_is_whole_if_its_text_has_ended(server: Scripted) -> None:
    server.answer = lambda asked: streams(chunk("a"), chunk(None, "stop"), done=False)
    assert len(Used(server.url).stream()) == 2


def test_a_stream_may_end_without_a_last_line_end(server: Scripted) -> None:
    server.answer = lambda asked: Sent(200, [event(chunk("a", "stop")).strip()], EVENTS)
    assert len(Used(server.url).stream()) == 1


BROKEN_STREAMS = {
    "ends early": (streams(chunk("a"), done=False), "broken"),
    "is empty": (streams(done=False), "broken"),
    "closed in the middle": (streams(chunk("a"), done=False, cut=True), "broken"),
    "an error in the middle": (streams(chunk("a"), {"error": {"message": KEY}}), "broken"),
    "an error as a text": (streams({"error": "out of memory"}), "broken"),
    "not JSON": (streams(chunk("a"), "{oops", chunk("b", "stop")), "broken"),
    "a list": (streams([chunk("a")]), "broken"),
    "NaN": (streams('{"choices": NaN}'), "broken"),
    "too deep": (streams('{"a":' + "[" * 5000 + "]" * 5000 + "}"), "broken"),
}


@pytest.mark.parametrize("case", BROKEN_STREAMS)
def test_a_stream_that_breaks_is_a_failure_and_not_asked_again(server: Scripted, case: str) -> None:
    reply, kind = BROKEN_STREAMS[case]
    server.answer = lambda asked: reply
    used = Used(server.url)
    assert told(used.failure(streamed=True)) == (502, kind)
    assert len(server.asked) == 1 and used.again == 0


def test_a_stream_that_falls_silent_is_too_slow(server: Scripted, release: threading.Event) -> None:
    server.answer = lambda asked: Sent(200, slowly(release, event(chunk("a"))), EVENTS)
    assert told(Used(server.url, timeout=0.2).failure(streamed=True)) == (504, "timeout")


def test_a_stream_may_take_longer_than_one_piece_of_it(server: Scripted) -> None:
    def steadily() -> Iterator[bytes]:
        for _ in range(12):
            threading.Event().wait(0.1)
            yield event(chunk("a"))
        yield event("[DONE]")

    server.answer = lambda asked: Sent(200, steadily(), EVENTS)
    assert len(Used(server.url, timeout=1).stream()) == 12


def test_a_stream_may_be_longer_than_any_whole_reply(server: Scripted) -> None:
    # A long piece of reasoning has a hundred thousand chunks of a few hundred bytes.
    large = chunk("x" * (1 << 20))
    server.answer = lambda asked: streams(*[large] * 20)
    assert len(Used(server.url).stream()) == 20


def test_an_endless_line_in_a_stream_is_given_up(server: Scripted) -> None:
    server.answer = lambda asked: Sent(200, itertools.repeat(b"x" * (1 << 18)), EVENTS)
    assert told(Used(server.url).failure(streamed=True)) == (502, "reply")


@pytest.mark.parametrize("kind", ["application/json", "text/html", ""])
def test_what_is_no_stream_where_one_was_asked_for_is_a_wrong_reply(server: Scripted, kind: str) -> None:
    server.answer = lambda asked: Sent(200, [json.dumps(completion("x")).encode()], kind)
    assert told(Used(server.url).failure(streamed=True)) == (502, "reply")


def test_a_stream_that_is_left_early_is_closed(server: Scripted) -> None:
    left: list[bool] = []
    done = threading.Event()

    def until_left(asked: Asked) -> Iterator[bytes]:
        yield event(chunk("a"))
        left.append(asked.hung_up())
        done.set()

    server.answer = lambda asked: Sent(200, until_left(asked), EVENTS)

    async def first(found: Upstream) -> None:
        with ExitStack() as held:
            await anext(await found.stream(BODY, held))
        assert await asyncio.to_thread(done.wait, 60)

    Used(server.url).run(first)
    assert left == [True]


def test_the_proxy_of_the_environment_is_used_unless_it_is_switched_off(
    server: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", server.url.removesuffix("/v1"))
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.delenv("no_proxy", raising=False)
    Used("http://model.invalid/v1").complete()
    assert server.asked[0].path == "http://model.invalid/v1/chat/completions"
    monkeypatch.setenv("NO_PROXY", "model.invalid")
    with pytest.raises(UpstreamFailure, match="cannot be reached"):
        Used("http://model.invalid/v1", retries=0).complete()
    assert len(server.asked) == 1
