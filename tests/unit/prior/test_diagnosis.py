"""The diagnosis of a prior: its figures by hand, its verdict on priors of each kind, and what cannot be told."""

import json
from collections.abc import Callable
from math import exp, log

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from calibsft.errors import InputError
from calibsft.prior import Diagnosis, diagnose
from calibsft.prior.gradient import format_of
from calibsft.prior.verdict import percent

Floats = NDArray[np.float64]


def drawn(p: Floats, seed: int = 0) -> NDArray[np.bool_]:
    """Whether each response is right, with its own chance."""
    found: NDArray[np.bool_] = np.random.default_rng(seed).random(len(p)) < p
    return found


def base_like(n: int = 4000, seed: int = 1) -> Diagnosis:
    """High values whatever the question, 40 % right."""
    stated = np.random.default_rng(seed).choice([0.85, 0.9, 0.95, 1.0], n, p=[0.1, 0.3, 0.4, 0.2])
    p = np.repeat(np.random.default_rng(2).uniform(0, 0.8, n // 8), 8)
    return diagnose(stated, drawn(p), np.repeat(np.arange(n // 8), 8))


def uniform(n: int = 4000) -> Diagnosis:
    """Any value, whatever the response."""
    stated = np.random.default_rng(3).integers(0, 101, n) / 100
    return diagnose(stated, drawn(np.full(n, 0.5)), np.repeat(np.arange(n // 8), 8))


def three_right_values(n: int = 4000) -> Diagnosis:
    """Few values, each as often right as it says."""
    p = np.repeat(np.random.default_rng(4).choice([0.1, 0.5, 0.9], n // 8), 8)
    return diagnose(p, drawn(p), np.repeat(np.arange(n // 8), 8))


def broad_and_off(n: int = 4000) -> Diagnosis:
    """All values, higher on right answers, but too high."""
    p = np.repeat(np.random.default_rng(5).uniform(0, 1, n // 8), 8)
    stated = np.clip(p**0.4 + np.random.default_rng(6).normal(0, 0.25, n), 0, 1).round(2)
    return diagnose(stated, drawn(p), np.repeat(np.arange(n // 8), 8))


def narrow_but_many(n: int = 4000) -> Diagnosis:
    """Ten values in one tenth of the range, slightly higher on right answers."""
    right = drawn(np.full(n, 0.4))
    rng = np.random.default_rng(7)
    stated = np.where(right, rng.integers(91, 100, n), rng.integers(90, 99, n)) / 100
    return diagnose(stated, right)


def reasons(found: Diagnosis) -> str:
    return " | ".join(found.verdict.reasons)


def test_a_sure_prior_that_knows_nothing_is_worth_it_for_three_reasons() -> None:
    found = base_like()
    assert found.verdict.worth_it is True
    knows, off, reach = found.verdict.reasons
    assert "does not tell right from wrong" in knows
    assert "learns only from values that it samples" in off and f"ECE {found.ece:.2f}" in off
    assert "97 of 101 values" in off
    assert "even the best of 8 responses misses" in reach
    assert found.verdict.notes == ()


def test_a_broad_prior_that_knows_nothing_is_worth_it_for_that_alone() -> None:
    found = uniform()
    assert found.verdict.worth_it is True
    assert len(found.verdict.reasons) == 1 and "does not tell right from wrong" in reasons(found)


def test_few_values_that_are_right_need_nothing() -> None:
    found = three_right_values()
    assert found.auroc is not None and found.auroc > 0.75
    assert found.verdict.worth_it is False
    assert "few values, but they are right" in reasons(found)


def test_a_broad_informative_prior_is_left_to_rl_even_if_it_is_off() -> None:
    found = broad_and_off()
    assert found.ece > 0.15
    assert found.verdict.worth_it is False
    assert "RL has values to choose from" in reasons(found)
    assert f"off (ECE {found.ece:.2f}) is what RL corrects" in reasons(found)


def test_ten_values_close_together_are_as_concentrated_as_one() -> None:
    found = narrow_but_many()
    assert found.everything.effective_support > 9 and found.everything.effective_bands == 1
    assert found.auroc is not None and found.auroc > 0.55
    assert found.verdict.worth_it is True
    assert "1.0 of 10 bands" in reasons(found)


def test_few_values_that_miss_the_questions_are_out_of_reach_even_if_right_on_average() -> None:
    # Right on average, and informative, but questions are nearly always or nearly never solved.
    rng = np.random.default_rng(8)
    p = np.repeat(rng.choice([0.02, 0.98], 1000), 8)
    stated = np.where(rng.random(8000) < np.where(p > 0.5, 0.7, 0.3), 0.7, 0.3)
    found = diagnose(stated, drawn(p), np.repeat(np.arange(1000), 8))
    assert found.ece < 0.05 and found.auroc is not None and found.auroc > 0.6
    assert found.verdict.worth_it is True
    assert len(found.verdict.reasons) == 1 and "misses a question's success rate by 0.2" in reasons(found)


def test_figures_of_a_small_table_by_hand() -> None:
    confidence = [None, 0.9, 0.9, 0.9, 0.3, 0.9, 0.3]
    correct = [1, 1, 0, 1, 0, 1, 1]
    found = diagnose(confidence, correct, ["c", "a", "a", "a", "b", "b", "c"], group_size=2)
    assert (found.n, found.unreadable) == (6, pytest.approx(1 / 7))
    everything = found.everything
    assert (everything.support, everything.top1, everything.top3) == (2, 4 / 6, 1)
    assert everything.effective_support == pytest.approx(exp(-(2 / 3 * log(2 / 3) + 1 / 3 * log(1 / 3))))
    assert [(value.confidence, value.share) for value in everything.top] == [(0.9, 4 / 6), (0.3, 2 / 6)]
    assert (everything.below_half, everything.accuracy) == (2 / 6, 4 / 6)
    assert everything.mean_confidence == pytest.approx(0.7)
    assert found.correct is not None and found.incorrect is not None
    assert (found.correct.n, found.correct.top1, found.correct.accuracy) == (4, 3 / 4, 1)
    assert (found.incorrect.n, found.incorrect.top1, found.incorrect.accuracy) == (2, 1 / 2, 0)
    # Questions a and b are left, with success rates 2/3 and 1/2; c has one readable response.
    floor, gradient = found.floor, found.gradient
    assert floor is not None
    assert (floor.questions, floor.left_out, floor.responses, floor.reliable) == (2, 1, 2.5, False)
    assert floor.noise == pytest.approx((2 / 9 / 2 + 1 / 4 / 1) / 2)
    far = 0.9 - 2 / 3
    assert floor.distance.plain == pytest.approx((far**2 + (0.4**2 + 0.2**2) / 2) / 2)
    # Question b: δ = 0.2 with both outside, or δ = 0.4 with one of two.
    assert floor.floor.plain == pytest.approx((far**2 + 0.4**2 / 2) / 2)
    assert floor.support_floor.plain == pytest.approx((far**2 + 0.2**2) / 2)
    assert floor.best_of_group.plain == pytest.approx((far**2 + 0.2**2) / 2)
    assert floor.reach == 0
    brier_a, brier_b = (0.01 + 0.81 + 0.01) / 3, (0.09 + 0.01) / 2
    assert floor.excess == pytest.approx((brier_a - 2 / 9 * 3 / 2 + brier_b - 1 / 4 * 2) / 2)
    assert (gradient.context, gradient.contexts, gradient.format_values) == ("question", 2, 101)
    # Both values, at rates 2/3 and 1/2: π(u − J) = ∓ 2/9 · (difference of their squared distances).
    differences = [(0.3 - q) ** 2 - (0.9 - q) ** 2 for q in (2 / 3, 1 / 2)]
    assert gradient.values[1].gradient == pytest.approx(2 / 9 * sum(differences) / 2)
    assert gradient.values[1].size == pytest.approx(2 / 9 * sum(map(abs, differences)) / 2)
    assert gradient.epsilon == pytest.approx(1 / 3)
    # The reward of 0.9 is −0.01 where the answer is right and −0.81 where it is wrong.
    rewards = [-(q * 0.01 + (1 - q) * 0.81) for q in (2 / 3, 1 / 2)]
    assert gradient.values[1].reward == pytest.approx(sum(rewards) / 2)


def test_without_questions_the_context_is_everything_and_there_is_no_floor() -> None:
    found = diagnose([0.9, 0.3], [True, False])
    assert (found.floor, found.gradient.context, found.gradient.contexts) == (None, "everything", 1)
    assert any("no floor" in note for note in found.verdict.notes)


def test_a_value_at_exactly_a_tenth_is_not_within_it() -> None:
    # 0.6 - 0.5 is a little less than 0.1 as a float.
    found = diagnose([0.6] * 2 + [0.59] * 2, [1, 0] * 2, ["a", "a", "b", "b"])
    assert found.floor is not None and found.floor.reach == 0.5


@pytest.mark.parametrize(
    "n, reliable, told",
    [(7, False, "the floor is not reliable and not weighed: 7.0 responses per question"), (8, True, None)],
)
def test_few_responses_per_question_make_the_floor_unreliable(
    n: int, reliable: bool, told: str | None
) -> None:
    p = np.repeat(np.random.default_rng(9).uniform(0, 1, 200), n)
    found = diagnose(np.full(len(p), 0.95), drawn(p), np.repeat(np.arange(200), n))
    assert found.floor is not None and found.floor.reliable is reliable
    assert ("best of 8" in reasons(found)) is reliable
    assert (told is None) == (found.verdict.notes == ())
    assert told is None or told in found.verdict.notes[0]


@pytest.mark.parametrize(
    "confidence, correct, told",
    [
        ([0.9], [True], "every response is right"),
        ([0.9] * 500, [True] * 500, "every response is right"),
        ([0.9] * 500, [False] * 500, "every response is wrong"),
        ([0.9, 0.8] * 40, [True, False] * 40, "40 right and 40 wrong responses are too few"),
        ([0.9] * 500, [True] * 460 + [False] * 40, "460 right and 40 wrong"),
    ],
)  # fmt: skip
def test_what_cannot_be_told_is_said(confidence: list[float], correct: list[bool], told: str) -> None:
    found = diagnose(confidence, correct, list(range(len(correct))))
    assert found.verdict.worth_it is None
    assert told in reasons(found)
    json.dumps(found.to_json(), allow_nan=False)


def test_a_constant_confidence_has_no_gradient_at_all() -> None:
    found = diagnose([0.9] * 200, [True, False] * 100)
    assert (found.gradient.norm, found.gradient.norm_bound, found.gradient.rare_share) == (0, 0, None)
    assert (found.everything.effective_support, found.auroc) == (1, 0.5)
    assert found.verdict.worth_it is True


def test_many_unreadable_confidences_are_told_and_left_out() -> None:
    found = diagnose(pl.Series([0.9, None] * 200), pl.Series([True, True, False, False] * 100))
    assert (found.n, found.unreadable) == (200, 0.5)
    assert any(note.startswith("50 % of the responses state no readable") for note in found.verdict.notes)


@pytest.mark.parametrize(
    "stated, name, values",
    [
        ([0.95], "probability", 101),
        ([0.0, 1.0], "probability", 101),
        ([0.25, 0.75], "linguistic", 3),
        ([0.75], "probability", 101),
        ([0.25, 0.75, 0.8], "probability", 101),
        ([0.0, 1 / 9, 1.0], "integer", 10),
        ([0.111111, 0.888889], "integer", 10),
        ([0.123, 0.5], None, 2),
    ],
)
def test_the_format_is_recognised_by_its_values(stated: list[float], name: str | None, values: int) -> None:
    found, grid = format_of(np.array(stated))
    assert (found, len(grid)) == (name, values)


def test_a_format_of_few_values_is_not_blamed_for_having_few() -> None:
    rng = np.random.default_rng(10)
    right = drawn(np.full(2000, 0.5))
    stated = np.where(rng.random(2000) < 0.8, right, ~right) * 0.5 + 0.25
    even = diagnose(stated, right)
    assert (even.gradient.format, even.gradient.format_bands) == ("linguistic", 3)
    assert even.verdict.worth_it is False
    sure = diagnose(np.where(rng.random(2000) < 0.05, 0.5, 0.75), drawn(np.full(2000, 0.4)))
    assert sure.verdict.worth_it is True and "1.2 in effect, which fill 1.2 of 3 bands" in reasons(sure)


def test_neither_the_order_of_rows_nor_the_type_of_columns_matters() -> None:
    rng = np.random.default_rng(11)
    stated, right = rng.integers(0, 101, 600) / 100, rng.random(600) < 0.5
    ids = rng.integers(0, 60, 600)
    found = diagnose(stated, right, ids).to_json()
    order = rng.permutation(600)
    other = diagnose(stated[order].tolist(), right[order].tolist(), [("q", int(id_)) for id_ in ids[order]])
    series = diagnose(pl.Series(stated), pl.Series(right), pl.DataFrame({"id": ids}).to_struct())
    for same in (other.to_json(), series.to_json()):
        assert _close(same, found)
    narrow = diagnose(stated.astype(np.float32), right, ids)
    assert narrow.everything.support == diagnose(stated, right).everything.support


def _close(one: object, other: object) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_close(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(_close, one, other))
    return one == (pytest.approx(other) if isinstance(other, float) else other)


@pytest.mark.parametrize(
    "call, told",
    [
        (lambda: diagnose([0.5], [1], group_size=0), "the group size is 0"),
        (lambda: diagnose([None, None], [1, 0]), "no response states a readable confidence"),
        (lambda: diagnose(pl.Series([None, None]), [1, 0]), "no response states a readable confidence"),
        (lambda: diagnose([], []), "no responses"),
        (lambda: diagnose([0.5, 1.5], [1, 0]), "confidence at index 1 is 1.5"),
        (lambda: diagnose([0.5, None, float("nan")], [1, 0, 1]), "confidence at index 2 is nan"),
        (lambda: diagnose(["0.5"], [1]), "confidence at index 0 is '0.5', not a number"),
        (lambda: diagnose([0.5, 0.5], [1]), "index 1 has no partner"),
        (lambda: diagnose([0.5, 0.5], [1, 0], ["a"]), "index 1 has no partner"),
    ],
)  # fmt: skip
def test_bad_arrays_are_refused(call: Callable[[], Diagnosis], told: str) -> None:
    with pytest.raises(InputError, match=told):
        call()


def test_percentages_have_a_decimal_where_they_are_small() -> None:
    assert [percent(share) for share in (0, 0.004, 0.0999, 0.1, 0.975, 1)] == [
        "0 %", "0.4 %", "10.0 %", "10 %", "98 %", "100 %",
    ]  # fmt: skip
