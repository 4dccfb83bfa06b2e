"""Rewards and advantages of every RL method against tables worked by hand, and what is refused.

Advantages are exact wherever the group allows it. Three equally spaced rewards r−d, r, r+d have the unbiased variance
(d² + 0 + d²)/2 = d², so their advantages are ±d/(d + 0.0001) and 0; so have five at −d, −d, 0, d, d: 4d²/4.
"""

from fractions import Fraction
from math import nan, sqrt
from typing import Any

import numpy as np
import pytest

from calibsft.errors import InputError
from calibsft.rl import METHODS, segment_advantages
from calibsft.rl.advantages import SegmentAdvantages, advantages_G_T
from calibsft.rl.method import Group, TokenSet

Row = tuple[bool, float | None, bool]  # correct, confidence, well formed
LN2, LN3, LN10 = 0.693147180559945, 1.098612288668110, 2.302585092994046
LN_FLOOR = -3 * LN10  # ln 0.001


def right(confidence: float) -> Row:
    return True, confidence, True


def wrong(confidence: float) -> Row:
    return False, confidence, True


def malformed(correct: bool = False, confidence: float | None = None) -> Row:
    return correct, confidence, False


def group(rows: list[Row], success_rate: float | None = None) -> Group:
    correct, confidence, well_formed = zip(*rows, strict=True)
    stated = np.array([nan if c is None else c for c in confidence])
    return Group(np.array(correct), stated, np.array(well_formed), success_rate)


def advantages(
    method: str, rows: list[Row], q: float | None = None, **options: Any
) -> dict[str, list[float]]:
    correct, confidence, well_formed = zip(*rows, strict=True)
    return segment_advantages(method, correct, confidence, well_formed, q, **options)


def decimals(*numbers: str) -> list[float]:
    return [float(Fraction(number)) for number in numbers]


def close(numbers: list[float]) -> Any:
    return pytest.approx(numbers, abs=1e-12, rel=0)


# Two of five count as correct, so p̂ = 2/5: the fifth is right, but malformed.
FIVE = [right(0.9), right(0.6), wrong(0.7), malformed(), malformed(correct=True, confidence=0.95)]
CORRECTNESS = decimals("2", "2", "1", "0", "0")  # a point for the format, one for being right

REWARDS = {
    "rlvr": (CORRECTNESS, CORRECTNESS),
    # 2 + 1 − .1²,  2 + 1 − .4²,  2 + 0 − .7²
    "rlcr": (decimals("2.99", "2.84", "1.51", "0", "0"),) * 2,
    # Distances to 2/5: .5, .2, .3
    "coca": (CORRECTNESS, decimals("0.75", "0.96", "0.91", "0", "0")),
    # Targets .2 + .5 when right, .2 when wrong; distances .2, .1, .5
    "dcpo": (CORRECTNESS, decimals("0.96", "0.99", "0.75", "0", "0")),
    # ln 9/10, ln 6/10, ln 3/10
    "redoubt": (None, [2 * LN3 - LN10, LN2 + LN3 - LN10, LN3 - LN10, LN_FLOOR, LN_FLOOR]),
}


@pytest.mark.parametrize("name", REWARDS)
def test_rewards_are_those_of_the_table(name: str) -> None:
    answer, confidence = REWARDS[name]
    found = METHODS[name].rewards(group(FIVE), METHODS[name].settings())
    assert (found.answer_G is None) == (answer is None)
    if answer is not None:
        assert found.answer_G is not None
        assert found.answer_G.tolist() == close(answer)
    assert found.confidence_G is not None
    assert found.confidence_G.tolist() == close(confidence)


@pytest.mark.parametrize(
    "name, confidence",
    [
        # Without itself a right response sees (2−1)/4 = .25, any other 2/4: distances .65, .35, .2
        ("coca", ["0.5775", "0.8775", "0.96", "0", "0"]),
        # Targets .125 + .5 when right, .25 when wrong; distances .275, .025, .45
        ("dcpo", ["0.924375", "0.999375", "0.7975", "0", "0"]),
    ],
)
def test_leaving_a_response_out_of_its_own_success_rate(name: str, confidence: list[str]) -> None:
    found = METHODS[name].rewards(group(FIVE), METHODS[name].settings(leave_one_out=True))
    assert found.answer_G is not None and found.confidence_G is not None
    assert found.answer_G.tolist() == CORRECTNESS
    assert found.confidence_G.tolist() == close(decimals(*confidence))


@pytest.mark.parametrize(
    "success_rate, table",
    [
        # right and known, right and unknown, wrong and unknown, wrong and known
        (1.0, ["1.1", "0.9", "-0.3", "-0.5"]),
        (0.98, ["1.1", "0.9", "0.2", "0"]),
        (0.5, ["1.1", "0.9", "0.2", "0"]),
        (0.02, ["1.1", "0.9", "0.2", "0"]),
        (0.0, ["1.6", "1.4", "0.2", "0"]),
    ],
)
@pytest.mark.parametrize("known", [5, 6, 7, 8, 9])
@pytest.mark.parametrize("unknown", [0, 1, 2, 3, 4])
def test_c3rl_rewards_are_those_of_the_papers_table(
    success_rate: float, table: list[str], known: int, unknown: int
) -> None:
    rows = [right(known / 9), right(unknown / 9), wrong(unknown / 9), wrong(known / 9)]
    rows += [malformed(), malformed(True, 1.0), malformed(False, 0.0)]
    found = METHODS["c3rl"].rewards(group(rows, success_rate), METHODS["c3rl"].settings())
    assert found.answer_G is not None and found.answer_G is found.confidence_G
    assert found.answer_G.tolist() == close(decimals(*table, "-1", "-1", "-1"))


@pytest.mark.parametrize(
    "row, reward",
    [
        (right(1.0), 0),
        (right(0.002), LN2 + LN_FLOOR),
        (right(0.001), LN_FLOOR),
        (right(0.0009), LN_FLOOR),
        (right(0.0), LN_FLOOR),
        (wrong(0.0), 0),
        (wrong(0.5), -LN2),
        (wrong(0.998), LN2 + LN_FLOOR),
        (wrong(0.9991), LN_FLOOR),
        (wrong(1.0), LN_FLOOR),
        (malformed(), LN_FLOOR),
        (malformed(correct=True, confidence=1.0), LN_FLOOR),
        (malformed(correct=False, confidence=0.0), LN_FLOOR),
    ],
)
def test_redoubt_scores_the_probability_of_what_came_about_and_no_less_than_a_thousandth(
    row: Row, reward: float
) -> None:
    found = METHODS["redoubt"].rewards(group([row]), METHODS["redoubt"].settings())
    assert found.confidence_G is not None
    assert found.confidence_G.tolist() == close([reward])


# A malformed response's correctness and confidence must not show in any of these.
HAND_WORKED: dict[str, tuple[list[Row], float | None, list[Any], list[Any]]] = {
    # Rewards 2, 1, 0: d = 1
    "rlvr": (
        [right(0.2), wrong(0.9), malformed(True, 0.9)],
        None,
        [Fraction(10000, 10001), 0, Fraction(-10000, 10001)],
        [Fraction(10000, 10001), 0, Fraction(-10000, 10001)],
    ),
    # Rewards 2 − .64, 3 − 1, 3 − .36: d = .64
    "rlcr": (
        [wrong(0.8), right(0.0), right(0.4)],
        None,
        [Fraction(-6400, 6401), 0, Fraction(6400, 6401)],
        [Fraction(-6400, 6401), 0, Fraction(6400, 6401)],
    ),
    # Answer 2, 2, 1, 1, 1: mean 7/5, variance (2·.36 + 3·.16)/4 = .3.
    # Confidence, p̂ = .4: distances .05, .05, .35, .35, .25; 1 − their squares is .9375 ± .06.
    "coca": (
        [right(0.45), wrong(0.35), wrong(0.05), right(0.75), wrong(0.65)],
        None,
        [x / (sqrt(0.3) + 0.0001) for x in (0.6, -0.4, -0.4, 0.6, -0.4)],
        [Fraction(600, 601), Fraction(600, 601), Fraction(-600, 601), Fraction(-600, 601), 0],
    ),
    # As CoCA, with the targets .7 when right and .2 when wrong.
    "dcpo": (
        [right(0.75), wrong(0.15), right(0.35), wrong(0.55), wrong(0.45)],
        None,
        [x / (sqrt(0.3) + 0.0001) for x in (0.6, -0.4, 0.6, -0.4, -0.4)],
        [Fraction(600, 601), Fraction(600, 601), Fraction(-600, 601), Fraction(-600, 601), 0],
    ),
    # Never solved before: 1.4, 0.2, −1: d = 1.2
    "c3rl": (
        [right(4 / 9), wrong(2 / 9), malformed(True, 1.0)],
        0.0,
        [Fraction(12000, 12001), 0, Fraction(-12000, 12001)],
        [Fraction(12000, 12001), 0, Fraction(-12000, 12001)],
    ),
    # ln .8, ln .4, ln .2, ln .1: equal steps of ln 2 around their mean, not divided by anything
    "redoubt": (
        [right(0.8), wrong(0.6), right(0.2), wrong(0.9)],
        None,
        [0, 0, 0, 0],
        [1.5 * LN2, 0.5 * LN2, -0.5 * LN2, -1.5 * LN2],
    ),
}


@pytest.mark.parametrize("name", HAND_WORKED)
def test_advantages_are_those_worked_by_hand(name: str) -> None:
    rows, q, answer, confidence = HAND_WORKED[name]
    found = advantages(name, rows, q)
    assert found["answer"] == close([float(a) for a in answer])
    assert found["confidence"] == close([float(a) for a in confidence])


def test_every_method_has_its_rows_in_the_tables() -> None:
    assert set(HAND_WORKED) == {*REWARDS, "c3rl"} == set(METHODS)


def test_both_segments_of_a_group_with_malformed_responses_are_normalised_apart() -> None:
    """CoCA: answers 2, 1, 0; p̂ = 1/3 and confidences 1/3 give 1, 1, 0: mean 2/3, variance (2/9 + 4/9)/2 = 1/3."""
    found = advantages("coca", [right(1 / 3), wrong(1 / 3), malformed(True, 1 / 3)])
    assert found["answer"] == close([10000 / 10001, 0, -10000 / 10001])
    unit = 1 / 3 / (sqrt(1 / 3) + 0.0001)
    assert found["confidence"] == close([unit, unit, -2 * unit])


def test_redoubt_gives_the_extremes_and_the_malformed_half_of_ln_1000() -> None:
    found = advantages("redoubt", [right(1.0), wrong(0.0), right(0.0), malformed(True, 0.99)])
    half = 1.5 * LN10
    assert found == {"answer": [0.0] * 4, "confidence": close([half, half, -half, -half])}


@pytest.mark.parametrize(
    "name, rows",
    [
        # Right responses see 1/2, the wrong one 1: distances .05, .25, .35
        ("coca", [right(0.55), right(0.75), wrong(0.65)]),
        # Targets .75, .75 and .5: the same distances
        ("dcpo", [right(0.8), right(0.5), wrong(0.15)]),
    ],
)
def test_leave_one_out_reaches_the_advantages(name: str, rows: list[Row]) -> None:
    found = advantages(name, rows, leave_one_out=True)
    assert found["confidence"] == close([600 / 601, 0, -600 / 601])
    assert advantages(name, rows)["confidence"] != close([600 / 601, 0, -600 / 601])


def test_division_by_the_deviation_can_be_switched_off_and_on() -> None:
    rows, q = HAND_WORKED["rlvr"][:2]
    assert advantages("rlvr", rows, q, divide_by_std=False)["answer"] == close([1, 0, -1])
    step = LN2 / (LN2 + 0.0001)  # ln .8, ln .4, ln .2: d = ln 2
    halves = [right(0.8), right(0.4), right(0.2)]
    assert advantages("redoubt", halves, divide_by_std=True)["confidence"] == close([step, 0, -step])


def test_a_deviation_as_small_as_the_floor_is_damped_by_it() -> None:
    """Rewards 1 and 0.9999, deviation 0.0001/√2: the advantage is .5/(1/√2 + 1), which is 1 − 1/√2."""
    found = advantages("coca", [right(0.5), wrong(0.51)])["confidence"]
    assert found == pytest.approx([1 - sqrt(0.5), sqrt(0.5) - 1], abs=1e-9)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(
    "rows",
    [
        [right(1 / 9)] * 3,
        [wrong(7 / 9)] * 7,
        [malformed(), malformed(True, 0.3), malformed(False, 0.8), malformed(True)],
    ],
)
@pytest.mark.parametrize("q", [0.0, 0.3, 1.0])
def test_a_group_with_equal_rewards_has_advantages_of_exactly_zero(
    name: str, rows: list[Row], q: float
) -> None:
    assert advantages(name, rows, q) == {"answer": [0.0] * len(rows), "confidence": [0.0] * len(rows)}


@pytest.mark.parametrize("low, high", [(0.2, 0.8), (0.05, 0.95)])
def test_rewards_that_differ_by_rounding_alone_are_equal(low: float, high: float) -> None:
    """CoCA with p̂ = 1/2: both are as far from it, but not in binary."""
    rows = [right(low), wrong(high)]
    rewards = METHODS["coca"].rewards(group(rows), METHODS["coca"].settings()).confidence_G
    assert rewards is not None and 0 < abs(rewards[0] - rewards[1]) < 1e-15
    assert advantages("coca", rows)["confidence"] == [0.0, 0.0]


def test_mirrored_confidences_are_equal_where_no_rounding_occurs() -> None:
    assert advantages("coca", [right(0.4), wrong(0.6)])["confidence"] == [0.0, 0.0]
    assert advantages("redoubt", [right(0.4), wrong(0.6)])["confidence"] == [0.0, 0.0]


def test_tokens_take_the_advantage_of_their_segment() -> None:
    segments = SegmentAdvantages(np.array([1.0, -2.0, 3.0]), np.array([10.0, -20.0, 30.0]))
    marked_G_T = np.array([[0, 0, 1, 1], [1, 0, 1, 0], [0, 0, 0, 0]], dtype=bool)
    assert advantages_G_T(segments, marked_G_T).tolist() == [
        [1, 1, 10, 10],
        [-20, -2, -20, -2],
        [3, 3, 3, 3],
    ]


@pytest.mark.parametrize(
    "name, tokens, divide, dynamic, formats, needs_rate, steps, kl, scalar",
    [
        ("rlvr", TokenSet.ALL, True, True, (), False, 160, 0.001, True),
        ("rlcr", TokenSet.ALL, True, True, (), False, 160, 0.0, True),
        ("coca", TokenSet.CONFIDENCE_TAG, True, True, (), False, 160, 0.0, False),
        ("dcpo", TokenSet.POST_ANSWER, True, True, (), False, 160, 0.0, False),
        ("c3rl", TokenSet.ALL, True, False, ("integer",), True, 160, 0.0, True),
        ("redoubt", TokenSet.POST_ANSWER, False, True, (), False, 80, 0.0, False),
    ],
)
def test_methods_place_sample_and_scale_as_the_paper_says(
    name: str, tokens: TokenSet, divide: bool, dynamic: bool, formats: tuple[str, ...],
    needs_rate: bool, steps: int, kl: float, scalar: bool,
) -> None:  # fmt: skip
    method = METHODS[name]
    assert method.name == name
    assert (method.confidence_tokens, method.divide_by_std, method.dynamic_sampling) == (
        tokens,
        divide,
        dynamic,
    )
    assert (method.formats, method.needs_success_rate) == (formats, needs_rate)
    settings = method.settings()
    assert (settings.name, settings.steps, settings.kl, method.is_scalar) == (name, steps, kl, scalar)


@pytest.mark.parametrize(
    "rows, mixed",
    [
        ([right(0.5), wrong(0.5)], True),
        ([right(0.5), right(0.9)], False),
        ([wrong(0.0), wrong(0.9)], False),
        ([right(0.5), malformed(True, 0.5)], True),  # malformed is not correct
        ([wrong(0.5), malformed(True, 0.5)], False),
        ([right(0.5)] * 7 + [wrong(0.5)], True),
    ],
)
def test_a_group_is_mixed_if_some_but_not_all_count_as_correct(rows: list[Row], mixed: bool) -> None:
    assert group(rows).is_mixed is mixed


def test_numbers_of_other_libraries_are_taken() -> None:
    rows, q, answer, _ = HAND_WORKED["c3rl"]
    correct, _, well_formed = (np.array(column) for column in zip(*rows, strict=True))
    found = segment_advantages(
        "c3rl", correct.astype(int), [Fraction(4, 9), np.float32(2 / 9), nan], well_formed, q
    )
    assert found["answer"] == close([float(a) for a in answer])


MIXED: dict[str, Any] = {"correct": [1, 0], "confidence": [0.8, 0.2], "well_formed": [1, 1]}


@pytest.mark.parametrize(
    "method, changes, message",
    [
        ("redout", {}, r"^unknown RL method 'redout'; did you mean 'redoubt'\? \(known: rlvr, rlcr, .*redoubt\)$"),
        ("grpo-with-confidence", {}, r"^unknown RL method 'grpo-with-confidence' \(known: "),
        ("rlcr", {"correct": [1], "confidence": [0.8], "well_formed": [1]}, "a group of 1 has nothing to compare"),
        ("rlcr", {"correct": [], "confidence": [], "well_formed": []}, "a group of 0 .* at least two responses"),
        ("rlcr", {"correct": [1, 0, 1]}, "have 3, 2 and 2 entries; give one of each per response"),
        ("rlcr", {"confidence": [0.8]}, "have 2, 1 and 2 entries"),
        ("rlcr", {"well_formed": [1, 1, 1]}, "have 2, 2 and 3 entries"),
        ("rlcr", {"confidence": [0.8, nan]}, r"confidence\[1\] = nan is not .* must be marked malformed"),
        ("redoubt", {"confidence": [None, 0.2]}, r"confidence\[0\] = None is not .* must be marked malformed"),
        ("rlvr", {"confidence": [0.8, None]}, r"confidence\[1\] = None"),
        ("coca", {"confidence": [0.8, 1.01]}, r"confidence\[1\] = 1.01 is not a number in \[0, 1\]"),
        ("dcpo", {"confidence": [-0.01, 0.2]}, r"confidence\[0\] = -0.01 is not a number in \[0, 1\]"),
        ("rlcr", {"confidence": [80, 20]}, r"confidence\[0\] = 80 is not a number in \[0, 1\]"),
        ("rlcr", {"confidence": [0.8, float("inf")]}, r"confidence\[1\] = inf"),
        ("rlcr", {"confidence": ["0.8", 0.2]}, r"confidence\[0\] = '0.8' is not a number"),
        ("rlcr", {"confidence": [0.8, True]}, r"confidence\[1\] = True is not a number"),
        ("rlcr", {"confidence": [np.True_, 0.2]}, r"confidence\[0\] = np.True_ is not a number"),
        ("rlcr", {"confidence": [0.8, 2], "well_formed": [1, 0]}, r"confidence\[1\] = 2 is not a number"),
        ("rlcr", {"correct": [1, 0.5]}, r"correct\[1\] = 0.5 is neither true nor false; give booleans"),
        ("rlcr", {"correct": ["yes", 0]}, r"correct\[0\] = 'yes' is neither true nor false"),
        ("rlcr", {"correct": [None, 0]}, r"correct\[0\] = None is neither"),
        ("rlcr", {"well_formed": [1, "1"]}, r"well_formed\[1\] = '1' is neither true nor false"),
        ("c3rl", {"confidence": [1.0, 0.0]}, "^c3rl needs q, the question's success rate before RL; give q="),
        ("c3rl", {"q": 0.5}, "^c3rl is defined for the integer format, whose confidences are d/9; 0.8 is not one"),
        ("c3rl", {"q": 1.5, "confidence": [1.0, 0.0]}, r"q = 1.5 is not a success rate; give a number in \[0, 1\]"),
        ("rlcr", {"q": -0.1}, "q = -0.1 is not a success rate"),
        ("rlcr", {"q": nan}, "q = nan is not a success rate"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_in_one_sentence(method: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        segment_advantages(method, **(MIXED | changes))
    assert "\n" not in str(caught.value)


def test_an_unreadable_confidence_is_taken_of_a_malformed_response_only() -> None:
    for unreadable in (None, nan):
        assert segment_advantages("rlcr", [1, 0, 1], [0.8, 0.2, unreadable], [1, 1, 0])
        with pytest.raises(InputError, match=r"confidence\[2\]"):
            segment_advantages("rlcr", [1, 0, 1], [0.8, 0.2, unreadable], [1, 1, 1])


def test_c3rl_minds_the_grid_of_well_formed_responses_only() -> None:
    assert segment_advantages("c3rl", [1, 0, 1], [5 / 9, 0.0, 0.8], [1, 1, 0], q=0.5)


def test_c3rl_reads_a_digit_that_lost_its_last_places_as_that_digit() -> None:
    """0.5555555 from a file is the digit 5, which claims to know as 6 does; 9 times it is a little less than 5."""
    assert segment_advantages("c3rl", [1, 1], [0.5555555, 6 / 9], [1, 1], q=0.5)["answer"] == [0.0, 0.0]
