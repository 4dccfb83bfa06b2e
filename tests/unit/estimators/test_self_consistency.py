"""Self-consistency: who votes together, who wins, and what an answer that means harm can do to the vote."""

from fractions import Fraction
from itertools import permutations
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from calibsft.artifacts import QUESTIONS, write_parquet
from calibsft.estimators.estimator import Evaluated
from calibsft.estimators.self_consistency import estimate
from calibsft.responses.formats import get_format
from calibsft.responses.prompts import Prompting
from calibsft.rollouts.plan import questions_frame
from calibsft.schema import Grade, Question
from calibsft.verify.equal_answers import COMPARABLE, Group, Poll
from calibsft.verify.verdicts import verdicts_frame, verify
from calibsft.verify.verifier import Verifier

# An answer, or None for a response without one, and its confidence, or None for one that cannot be read.
Sample = tuple[str | None, str | None]


def response(answer: str | None, confidence: str | None) -> str:
    said = "" if answer is None else f"<answer>{answer}</answer>"
    return f"<think></think>{said}<confidence>{confidence or 'sure'}</confidence>"


def evaluation(
    folder: Path, asked: dict[Question, list[Sample]], format_name: str = "probability"
) -> tuple[Evaluated, pl.DataFrame]:
    """A real evaluation's folder and rows: the questions as written down, the responses as verified."""
    write_parquet(folder / "rollouts" / QUESTIONS, questions_frame(list(asked)))
    responses = [
        {
            "dataset": q.dataset, "question_id": q.id, "sample": i, "response": response(*sample), "finished": True,
            "ending": "finished", "other_answer": None, "question": q.text, "gold": list(q.golds), "grader": q.grader,
            "tolerance": q.tolerance,
        }
        for q, samples in asked.items()
        for i, sample in enumerate(samples)
    ]  # fmt: skip
    confidence_format = get_format(format_name)
    with Verifier() as verifier:
        verdicts = verify(pl.DataFrame(responses), confidence_format, verifier)
    rows = verdicts_frame(verdicts).with_columns(split=pl.lit("id"))
    nobody: Any = None
    return Evaluated(folder, Prompting(confidence_format), "test", nobody, nobody), rows


def question(gold: str = "1/2", grader: str = "math", id: str = "q", tolerance: str = "") -> Question:
    return Question(id, "What?", gold, grader, "d", tolerance)


def vote(folder: Path, samples: list[Sample], asked: Question | None = None) -> dict[str, Any]:
    found = estimate(*evaluation(folder, {asked or question(): samples}))
    assert len(found) == 1
    return found.row(0, named=True)


def test_notations_of_one_value_vote_together(tmp_path: Path) -> None:
    samples: list[Sample] = [
        ("3", "0.90"), ("1/2", "0.20"), ("3", "0.90"), ("0.5", "0.30"), (r"\frac12", "0.70"),
    ]  # fmt: skip
    found = vote(tmp_path, samples)
    assert (found["answer"], found["votes"], found["samples"]) == ("1/2", 3, 5)
    assert found["confidence"] == 0.4 and found["correct"] is True


def test_decimals_of_any_length_vote_with_their_exact_value(tmp_path: Path) -> None:
    samples: list[Sample] = [("1/2", "0.9"), ("1/2", "1"), ("1/2", ".875"), ("1/2", "0.125")]
    assert vote(tmp_path, samples)["confidence"] == 0.725


@pytest.mark.parametrize("grader", ["text", "exact", "contains", "drop", "judge"])
def test_other_kinds_vote_by_their_normal_text(tmp_path: Path, grader: str) -> None:
    samples: list[Sample] = [("Rome", "0.10"), ("The Paris!", "0.50"), ("paris", "0.60")]
    found = vote(tmp_path, samples, question("Rome", grader))
    assert (found["answer"], found["votes"], found["confidence"]) == ("The Paris!", 2, 0.55)
    assert found["correct"] is False


def test_text_that_only_looks_like_numbers_is_not_calculated_with(tmp_path: Path) -> None:
    samples: list[Sample] = [("1/2", "0.10"), ("0.5", "0.90")]
    assert vote(tmp_path, samples, question("1/2", "exact"))["votes"] == 1


def test_punctuation_counts_in_mathematics(tmp_path: Path) -> None:
    assert vote(tmp_path, [("-5", "0.10"), ("5", "0.20"), ("0.5", "0.30")])["votes"] == 1


def test_the_tolerance_of_a_question_holds_for_its_answers_too(tmp_path: Path) -> None:
    samples: list[Sample] = [("4.20", "0.40"), ("7", "0.90"), ("4.24", "0.60")]
    found = vote(tmp_path, samples, question("4.2", tolerance="0.1"))
    assert (found["answer"], found["votes"], found["confidence"]) == ("4.20", 2, 0.5)
    assert vote(tmp_path, samples, question("4.2"))["votes"] == 1


def test_ties_go_to_the_higher_mean_confidence(tmp_path: Path) -> None:
    samples: list[Sample] = [("3", "0.50"), ("1/2", "0.10"), ("0.5", "0.92"), ("3", "0.50")]
    assert vote(tmp_path, samples)["answer"] == "1/2"


def test_equal_means_go_to_the_answer_seen_first_whatever_floats_make_of_them(tmp_path: Path) -> None:
    # 0.1 + 0.2 exceeds 0.3 + 0.0 in floating point.
    assert 0.1 + 0.2 > 0.3
    samples: list[Sample] = [("3", "0.30"), ("7", "0.10"), ("3", "0.00"), ("7", "0.20")]
    found = vote(tmp_path, samples)
    assert (found["answer"], found["confidence"]) == ("3", 0.15)


def test_the_order_of_rows_does_not_matter(tmp_path: Path) -> None:
    samples: list[Sample] = [("3", "0.30"), ("1/2", "0.10"), ("3", "0.00"), ("0.5", "0.20")]
    evaluated, rows = evaluation(tmp_path, {question(): samples})
    wanted = estimate(evaluated, rows)
    for order in permutations(range(len(rows))):
        assert estimate(evaluated, rows[list(order)]).equals(wanted)


def test_a_confidence_that_cannot_be_read_counts_as_zero(tmp_path: Path) -> None:
    assert vote(tmp_path, [("3", "0.80"), ("3", None)])["confidence"] == 0.4


def test_without_an_answer_there_is_no_vote(tmp_path: Path) -> None:
    samples: list[Sample] = [(None, "0.90"), ("", "0.90"), ("\u200b ", "0.90"), ("1/2", "0.20")]
    found = vote(tmp_path, samples)
    assert (found["answer"], found["votes"], found["samples"], found["confidence"]) == ("1/2", 1, 4, 0.2)


def test_a_question_that_nobody_answered_is_wrong_without_a_confidence(tmp_path: Path) -> None:
    found = vote(tmp_path, [(None, "0.90"), ("", "0.50")])
    assert (found["answer"], found["votes"], found["confidence"], found["correct"]) == (None, 0, None, False)


@pytest.mark.parametrize("answer", [None, "5"])
def test_a_gold_that_cannot_be_read_leaves_the_question_unscored(tmp_path: Path, answer: str | None) -> None:
    assert vote(tmp_path, [(answer, "0.90")], question("{"))["correct"] is None


def test_questions_are_polled_apart_and_come_one_row_each(tmp_path: Path) -> None:
    asked = {
        question("1/2", id="b"): [("3", "0.10"), ("0.5", "0.30"), (r"\frac{1}{2}", "0.50")],
        question("3", id="a"): [("3", "0.70"), ("0.5", "0.20"), ("3.0", "0.90")],
        question("x", "text", id="c"): [("y", "0.40")] * 3,
        Question("a", "Else?", "2", "math", "other"): [("2", "0.60")],
    }
    found = estimate(*evaluation(tmp_path, dict(asked)))
    assert found.select("dataset", "question_id", "answer", "votes", "confidence", "correct").rows() == [
        ("d", "a", "3", 2, 0.8, True),
        ("d", "b", "0.5", 2, 0.4, True),
        ("d", "c", "y", 3, 0.4, False),
        ("other", "a", "2", 1, 0.6, True),
    ]
    assert found["split"].unique().to_list() == ["id"]


@pytest.mark.parametrize(
    ("format_name", "confidences", "mean"),
    [("integer", ("9", "0", "3"), 4 / 9), ("linguistic", ("low", "high", "high"), float(Fraction(7, 12)))],
)
def test_every_confidence_format_is_averaged_exactly(
    tmp_path: Path, format_name: str, confidences: tuple[str, ...], mean: float
) -> None:
    samples: list[Sample] = [("1/2", confidence) for confidence in confidences]
    found = estimate(*evaluation(tmp_path, {question(): samples}, format_name))
    assert found["confidence"].to_list() == [mean]


HOSTILE = ["9^{9^{9^9}}", "(x+y+z+1)^{200}", r"\frac{" * 300, "7" * 10**5, "\0", "__import__('os')"]


def test_hostile_answers_stand_alone_and_cost_the_others_nothing(tmp_path: Path) -> None:
    hostile: list[Sample] = [(text, "0.99") for text in HOSTILE]
    found = vote(tmp_path, [*hostile, ("0.5", "0.20"), (r"\frac12", "0.40"), *hostile[:1]])
    # The first hostile text occurs twice, which is a vote like any other; the tie goes to its confidence.
    assert (found["answer"], found["votes"], found["correct"]) == (HOSTILE[0], 2, False)
    found = vote(tmp_path, [*hostile, ("0.5", "0.20"), (r"\frac12", "0.40")])
    assert found["votes"] == 2 and found["correct"] is True and found["confidence"] == pytest.approx(0.3)


def test_what_could_not_be_compared_with_the_gold_is_not_compared_again() -> None:
    groups = [Group(text, comparable, [0]) for text, comparable in (("a", True), ("b", False))]
    for first, second in permutations(groups):
        poll = Poll("math", "", [first, second])
        poll.next_group()
        assert poll.comparisons() == []
        poll.settle(iter([]))
        assert poll.waiting == [second]
    assert "timeout" not in COMPARABLE and "too_large" not in COMPARABLE


def test_an_answer_joins_the_first_group_that_it_equals_and_no_pair_is_compared_twice() -> None:
    groups = [Group(text, True, [position]) for position, text in enumerate("abc")]
    poll = Poll("math", "0.1", list(groups))
    poll.next_group()
    first = poll.comparisons()
    assert [(item.gold, item.answer, item.tolerance) for item in first] == [
        ("a", "b", "0.1"),
        ("a", "c", "0.1"),
    ]
    poll.settle(iter([Grade.INCORRECT, Grade.CORRECT]))
    poll.next_group()
    assert poll.comparisons() == [] and [group.members for group in poll.groups] == [[0, 2], [1]]
