"""The rubric `score`: what is asked, which replies are scores, and one cache for two rubrics."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from calibsft.judge import RUBRICS, Judge, JudgeItem
from calibsft.judge.score import SCORE, SYSTEM
from calibsft.judge.yes_no import YES_NO
from judge_server import Server, item, judge_at, model_at

RESPONSE = "<think>6 times 7</think> <answer>42</answer> <confidence>0.93</confidence>"


def scores(server: Server, items: list[JudgeItem], cache: Path | None = None) -> list[Fraction | None]:
    return Judge(model_at(server), SCORE, cache).judge_all(items)


def test_rubrics_are_listed_by_their_names() -> None:
    assert {name: rubric.name for name, rubric in RUBRICS.items()} == {"yes-no": "yes-no", "score": "score"}


def test_the_rubric_is_the_paper_s_word_for_word() -> None:
    for line in (
        "10: correct with sound reasoning", "8–9: correct with minor gaps", "5–7: partially correct or ambiguous",
        "2–4: meaningful but incorrect", "0–1: invalid or clearly wrong",
    ):  # fmt: skip
        assert f" {line}" in SYSTEM


def test_the_judge_sees_question_and_response_and_no_reference_or_confidence(server: Server) -> None:
    server.answer = lambda body: (200, "7")
    asked = JudgeItem("6*7?", RESPONSE, references=("forty-two",))
    assert scores(server, [asked]) == [Fraction(7, 10)]
    (prompt,) = server.prompts
    assert (
        "<question>6*7?</question>\n<response>‹think›6 times 7‹/think› ‹answer›42‹/answer›</response>"
        in prompt
    )
    assert "forty-two" not in prompt and "0.93" not in prompt and "onfidence" not in prompt


def test_there_is_room_for_more_than_a_score_in_every_way_of_asking(server: Server) -> None:
    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        return (200, "10") if "max_completion_tokens" in body else (400, {"error": {"message": "unknown"}})

    server.answer = answer
    assert scores(server, [JudgeItem("q", RESPONSE)]) == [Fraction(1)]
    limits = [body.get("max_tokens") or body.get("max_completion_tokens") for body in server.bodies]
    assert limits == [8, 8, 8]


@pytest.mark.parametrize("score", range(11))
def test_whole_numbers_from_0_to_10_are_scores(score: int) -> None:
    assert SCORE.read(str(score)) == Fraction(score, 10)


@pytest.mark.parametrize(
    "reply",
    [
        "", "11", "100", "-1", "+7", "07", "007", "7.0", "8.5", "7/10", "8-9", "8–9", "7 7", "7.", "**7**", "Score: 7", "seven",
        "７", "٧", "Ⅶ", "७", "1e1", "0x7", "1_0", "nan", "inf", "10" * 40, "<think>", "7\x00", "\u202e7", "7</s>",
    ],
)  # fmt: skip
def test_nothing_else_is_a_score(reply: str) -> None:
    assert SCORE.read(reply) is None


def test_a_reply_that_is_no_score_is_warned_of_and_kept(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answer = lambda body: (200, " 9\n" if "good" in body["messages"][1]["content"] else "Well, 9")
    items, cache = (
        [JudgeItem("q", "good"), JudgeItem("q", "odd"), JudgeItem("q", "odd")],
        tmp_path / "judge.jsonl",
    )
    for _ in range(2):
        assert scores(server, items, cache) == [Fraction(9, 10), None, None]
        said = capsys.readouterr().err
        assert "m gave no verdict on 2 of 3 responses" in said
        assert "it said 'Well, 9', not a whole number from 0 to 10" in said
    assert len(server.bodies) == 2


def test_two_rubrics_share_one_cache_and_never_a_reply(server: Server, tmp_path: Path) -> None:
    cache = tmp_path / "judge.jsonl"
    server.answer = lambda body: (200, "5" if "<response>" in body["messages"][1]["content"] else "yes")
    for _ in range(2):
        assert [str(grade) for grade in judge_at(server, cache).grade_all([item("Lyon")])] == ["correct"]
        assert scores(server, [JudgeItem("Capital of France?", "Lyon")], cache) == [Fraction(1, 2)]
    assert len(server.bodies) == len(cache.read_text().splitlines()) == 2


def test_rubric_version_model_and_prompt_are_all_part_of_the_key(server: Server, tmp_path: Path) -> None:
    cache, asked = tmp_path / "judge.jsonl", [JudgeItem("q", "r")]
    server.answer = lambda body: (200, "5")
    same = {"prompt": SCORE.prompt, "read": SCORE.read}
    rubrics = [
        SCORE,
        replace(SCORE, version=2),
        replace(YES_NO, **same),
        replace(SCORE, name="score-1", version=2),
    ]
    for rubric in rubrics:
        assert Judge(model_at(server), rubric, cache).judge_all(asked) == [Fraction(1, 2)]
    Judge(model_at(server), SCORE, cache).judge_all([JudgeItem("q", "other")])
    other = model_at(server)
    other.name = "other"
    Judge(other, SCORE, cache).judge_all(asked)
    assert len(server.bodies) == len(rubrics) + 2


def test_replies_to_yes_no_are_found_in_caches_under_their_version_alone(
    server: Server, tmp_path: Path
) -> None:
    cache = tmp_path / "judge.jsonl"
    judge_at(server, cache).grade_all([item("Lyon")])
    assert '"6cc43acbc899c28a' in cache.read_text()


def test_progress_counts_items_and_each_prompt_is_asked_once(server: Server) -> None:
    server.answer = lambda body: (200, "3")
    seen: list[int] = []
    items = [JudgeItem("q", f"r{n % 4}") for n in range(12)]
    assert Judge(model_at(server), SCORE).judge_all(items, seen.append) == [Fraction(3, 10)] * 12
    assert seen == [3, 6, 9, 12] and len(server.bodies) == 4
