"""The judge behind an endpoint, over real sockets: what is asked, what is kept, what is refused."""

import signal
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import pytest

from calibsft.errors import InputError
from calibsft.judge.cache import VerdictCache
from calibsft.judge.endpoint import EndpointJudge
from calibsft.schema import Grade
from judge_server import (
    KEY,
    Server,
    answer_judge,
    completion,
    item,
    judge_at,
    refused,
    says_yes_to_even_numbers,
)

CORRECT, INCORRECT, UNJUDGED = Grade.CORRECT, Grade.INCORRECT, Grade.UNJUDGED


def test_grades_come_in_the_order_of_the_items_each_asked_once(server: Server, tmp_path: Path) -> None:
    server.answer = says_yes_to_even_numbers
    numbers = [*range(30), *range(30)]
    seen: list[tuple[int, int]] = []
    grades = judge_at(server, tmp_path / "verdicts.jsonl").grade_all(
        [item(f"city {n}") for n in numbers], lambda done, total: seen.append((done, total))
    )
    assert grades == [INCORRECT if n % 2 else CORRECT for n in numbers]
    assert len(server.bodies) == 30
    assert seen == [(2 * (i + 1), 60) for i in range(30)]


def test_requests_run_side_by_side_up_to_the_limit(server: Server) -> None:
    now, most, lock = 0, 0, threading.Lock()

    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.1)
        with lock:
            now -= 1
        return 200, "No"

    server.answer = answer
    judge_at(server, concurrency=3).grade_all([item(f"city {n}") for n in range(10)])
    assert most == 3


def test_one_token_at_temperature_zero_without_thinking_is_asked_for(server: Server) -> None:
    judge_at(server).grade_all([item("Lyon")])
    (body,) = server.bodies
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("m", 0, 1)
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert [turn["role"] for turn in body["messages"]] == ["system", "user"]
    assert server.keys == [f"Bearer {KEY}"]


def test_the_prompt_holds_question_references_and_prediction(server: Server) -> None:
    judge_at(server).grade_all([item("Lyon", ("Paris", "paris.", "\u200b", "Lutetia"), "Which city\nis it?")])
    (prompt,) = server.prompts
    assert "<question>Which city is it?</question>" in prompt
    assert "<references>\n- Paris\n- Lutetia\n</references>" in prompt
    assert "<prediction>Lyon</prediction>" in prompt


def test_what_needs_no_judge_is_not_asked(server: Server) -> None:
    items = [item("the paris!"), item(" \0"), item("Lyon", ("", " ")), item("<confidence>0.9</confidence>")]
    grades = judge_at(server).grade_all(items)
    assert grades == [CORRECT, Grade.UNPARSED_ANSWER, Grade.UNPARSED_GOLD, Grade.UNPARSED_ANSWER]
    assert not server.bodies


def test_answers_that_look_the_same_are_one_question_to_the_judge(server: Server) -> None:
    items = [item("Lyon"), item("Ly\u200bon"), item(" Lyon\n"), item("Lyon <confidence>0.9</confidence>")]
    assert judge_at(server).grade_all(items) == [CORRECT] * 4
    assert len(server.bodies) == 1


def test_nothing_to_grade_asks_nothing(server: Server) -> None:
    assert judge_at(server).grade_all([]) == []
    assert not server.bodies


def test_the_name_says_version_model_and_what_is_not_asked(server: Server) -> None:
    assert judge_at(server).name == "judge-1 m (exact aliases unasked)"


def test_a_second_run_asks_nothing(server: Server, tmp_path: Path) -> None:
    server.answer = says_yes_to_even_numbers
    cache, items = tmp_path / "deep" / "verdicts.jsonl", [item(f"city {n}") for n in range(5)]
    first = judge_at(server, cache).grade_all(items)
    server.answer = lambda body: (500, "gone")
    assert judge_at(server, cache).grade_all(items) == first
    assert len(server.bodies) == 5


def test_another_model_question_or_alias_is_another_question_to_the_judge(
    server: Server, tmp_path: Path
) -> None:
    cache = tmp_path / "verdicts.jsonl"
    for asked in (item("Lyon"), item("Lyon", question="Else?"), item("Lyon", "Rome"), item("Nice")):
        judge_at(server, cache).grade_all([asked])
    answer_judge(EndpointJudge(server.url, "other"), cache).grade_all([item("Lyon")])
    assert len(server.bodies) == 5


def test_finished_verdicts_survive_a_failure_and_only_the_rest_is_asked(
    server: Server, tmp_path: Path
) -> None:
    cache, items = tmp_path / "verdicts.jsonl", [item(f"city {n:02}") for n in range(20)]

    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        time.sleep(0.05)
        return (500, {}) if "city 11" in str(body["messages"]) else (200, "No")

    server.answer = answer
    with pytest.raises(InputError, match="fails"):
        judge_at(server, cache, concurrency=2).grade_all(items)
    known = len(cache.read_text().splitlines())
    assert known == 19, "what can be answered is"
    server.answer, server.bodies = lambda body: (200, "No"), []
    assert judge_at(server, cache).grade_all(items) == [INCORRECT] * 20
    assert len(server.bodies) == 20 - known


def test_after_a_kill_only_the_rest_is_asked(server: Server, tmp_path: Path) -> None:
    cache, enough = tmp_path / "verdicts.jsonl", threading.Event()

    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        if len(server.bodies) > 12:
            enough.set()
            time.sleep(1)
        return 200, "No"

    server.answer = answer
    program = (
        "from pathlib import Path\n"
        "from calibsft.verify.grader import GradeItem\n"
        "from calibsft.judge import Judge, RUBRICS\n"
        "from calibsft.verify.judged import AnswerJudge\n"
        "from calibsft.judge.endpoint import EndpointJudge\n"
        f"model, cache = EndpointJudge({server.url!r}, 'm', concurrency=1), Path({str(cache)!r})\n"
        "AnswerJudge(Judge(model, RUBRICS['yes-no'], cache)).grade_all([GradeItem('judge', 'Paris', f'city {n}', question='Capital of France?') for n in range(20)])\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program])
    assert enough.wait(60)
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert len(cache.read_bytes().splitlines()) == 12
    with cache.open("ab") as file:
        file.write(b'{"key": "torn')
    server.answer, server.bodies = lambda body: (200, "No"), []
    assert judge_at(server, cache).grade_all([item(f"city {n}") for n in range(20)]) == [INCORRECT] * 20
    assert len(server.bodies) == 8
    assert judge_at(server, cache).grade_all([item(f"city {n}") for n in range(20)]) == [INCORRECT] * 20
    assert len(server.bodies) == 8, "the first line after a torn one is read"


def test_an_unreadable_reply_is_unscored_warned_of_once_and_kept(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answer = lambda body: (200, None if "Nice" in str(body) else "<think>")
    cache, items = tmp_path / "verdicts.jsonl", [item("Lyon"), item("Lyon"), item("Nice"), item("Paris")]
    for _ in range(2):
        assert judge_at(server, cache).grade_all(items) == [UNJUDGED, UNJUDGED, UNJUDGED, CORRECT]
        said = capsys.readouterr().err
        assert said.count("warning:") == 1
        assert "m gave no verdict on 3 of 4 answers" in said and "'<think>'" in said and str(cache) in said
    assert len(server.bodies) == 2


def test_a_server_that_knows_no_thinking_is_asked_without_it_from_then_on(server: Server) -> None:
    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        if "chat_template_kwargs" in body:
            return 400, refused("Unrecognized request argument supplied: chat_template_kwargs")
        if "max_tokens" in body:
            return 422, refused("Use 'max_completion_tokens' instead.")
        return 200, "Yes"

    server.answer = answer
    assert judge_at(server).grade_all([item(f"city {n}") for n in range(6)]) == [CORRECT] * 6
    assert len(server.bodies) == 2 + 6
    assert all(body["max_completion_tokens"] == 1 for body in server.bodies[2:])


def test_one_refused_prompt_costs_its_own_verdict_only(server: Server, tmp_path: Path) -> None:
    server.answer = lambda body: (400, refused("too long")) if "xxx" in str(body) else (200, "No")
    items, cache = [item("x" * 900), item("Lyon"), item("Nice")], tmp_path / "verdicts.jsonl"
    assert judge_at(server, cache).grade_all(items) == [UNJUDGED, INCORRECT, INCORRECT]
    server.answer = lambda body: (200, "No")
    assert judge_at(server, cache).grade_all(items) == [INCORRECT] * 3, "a refusal is not a verdict"


def test_a_content_filter_is_no_broken_set_up(server: Server) -> None:
    server.answer = lambda body: (400, refused("filtered", "content_filter"))
    assert judge_at(server).grade_all([item("Lyon")]) == [UNJUDGED]


@pytest.mark.parametrize(
    "status, reply, sentence",
    [
        (
            400,
            refused("context is too small\x1b[31m"),
            r"refuses what it is asked \(400: context is too small \[",
        ),
        (
            401,
            refused(f"Incorrect API key provided: {KEY}"),
            r"refuses the API key \(401\); set the right one",
        ),
        (403, refused(f"{KEY[:8]}***"), r"refuses the API key \(403\)"),
        (404, refused("The model `m` does not exist."), "no chat completions of a model 'm' .404: The model"),
        (404, {"detail": "Not Found"}, r"\(404: Not Found\); correct judge.model, or judge.url"),
        (418, refused(f"no tea for {KEY}"), r"asked \(418\); try"),
        (500, refused(f"key prefix {KEY[:9]}..."), r"fails \(500\); check"),
        (500, refused(f"backwards {KEY[::-1]}"), r"fails \(500\); check"),
        (500, refused("out of tea"), r"fails \(500: out of tea\); check"),
        (429, refused("slow down"), "wants fewer requests .429: slow down.; lower judge.concurrency"),
        (500, {}, r"fails \(500\); check that server and run again"),
        (503, b"<html>busy", "fails .503"),
        (200, b"<html>hello", "does not reply with chat completions; correct judge.url"),
        (200, {"hello": 1}, "does not reply with chat completions"),
        (200, [], "does not reply with chat completions"),
        (200, {**completion("x"), "choices": [{"index": 0}]}, None),
    ],
)
def test_a_server_that_fails_is_explained_in_one_sentence(
    server: Server, status: int, reply: Any, sentence: str | None
) -> None:
    server.answer = lambda body: (status, reply)
    if sentence is None:
        assert judge_at(server).grade_all([item("Lyon")]) == [UNJUDGED]
        return
    with pytest.raises(InputError, match=sentence) as caught:
        judge_at(server).grade_all([item("Lyon"), item("Nice")])
    said = str(caught.value)
    assert server.url in said and "\n" not in said and "\x1b" not in said
    assert KEY[:8] not in "".join(traceback.format_exception(caught.value)), "nor in what --debug prints"


def test_silence_and_a_dead_address_are_explained(server: Server) -> None:
    release = threading.Event()
    server.answer = lambda body: (release.wait(10), (200, "Yes"))[1]
    with pytest.raises(InputError, match=r"took more than 0.2 seconds; raise judge.timeout"):
        judge_at(server, timeout=0.2).grade_all([item("Lyon")])
    release.set()
    dead = EndpointJudge("http://127.0.0.1:9/v1", "m", retries=0)
    with pytest.raises(InputError, match=r"http://127.0.0.1:9/v1 cannot be reached; start its server"):
        answer_judge(dead).grade_all([item("Lyon")])


def test_a_busy_server_is_asked_again(server: Server) -> None:
    server.answer = lambda body: (503, {}) if len(server.bodies) == 1 else (200, "Yes")
    assert judge_at(server, retries=1).grade_all([item("Lyon")]) == [CORRECT]
    assert len(server.bodies) == 2


@pytest.mark.parametrize(
    "ours, other, sent",
    [
        (" key \n", "b", "Bearer key"),
        ("", "b", "Bearer b"),
        (None, "b", "Bearer b"),
        (None, None, None),
    ],
)
def test_the_key_comes_from_the_environment(
    server: Server, monkeypatch: pytest.MonkeyPatch, ours: str | None, other: str | None, sent: str | None
) -> None:
    for name, value in (("CALIBSFT_JUDGE_API_KEY", ours), ("OPENAI_API_KEY", other)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    judge_at(server).grade_all([item("Lyon")])
    assert server.keys == [sent]


def test_a_key_with_strange_characters_is_refused_without_showing_it(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALIBSFT_JUDGE_API_KEY", "sk-клюк")
    with pytest.raises(InputError, match="CALIBSFT_JUDGE_API_KEY holds characters that no key has") as caught:
        judge_at(server).grade_all([item("Lyon")])
    assert "клюк" not in str(caught.value)


# What was answered before


def test_two_processes_can_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.jsonl"
    program = (
        "import sys; from pathlib import Path; from calibsft.judge.cache import VerdictCache\n"
        f"cache = VerdictCache(Path({str(path)!r}))\n"
        "for n in range(2000): cache.add(f'{sys.argv[1]}{n}', 'yes' * 30)\n"
    )
    children = [subprocess.Popen([sys.executable, "-c", program, name]) for name in "ab"]
    assert [child.wait(60) for child in children] == [0, 0]
    found = VerdictCache(path)
    assert all(found.get(f"{name}{n}") == "yes" * 30 for name in "ab" for n in range(2000))
    assert len(path.read_text().splitlines()) == 4000


def test_foreign_lines_are_passed_over_and_the_first_word_stands(tmp_path: Path) -> None:
    path = tmp_path / "verdicts.jsonl"
    lines = [b"\xff", b"[]", b"{}", b"[" * 100_000, b'{"key": 1, "verdict": "no"}', b"", b'{"key": "k"}']
    good = [b'{"key": "k", "verdict": "yes"}', b'{"key": "k", "verdict": "no"}']
    path.write_bytes(b"\n".join([*lines, *good]))
    assert VerdictCache(path).get("k") == "yes"


def test_a_file_that_cannot_be_read_or_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the judge's verdicts cannot be read"):
        VerdictCache(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="the judge's verdicts cannot be written"):
        VerdictCache(tmp_path / "file" / "verdicts.jsonl").add("k", "yes")
