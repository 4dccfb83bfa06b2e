"""Certificates: exact bounds, exact thresholds, the paper's procedure, and a guarantee that holds in simulation."""

import math
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from calibsft.decisions import answered_held_out, certify, error_rate_upper_bound, perfect_ranking
from calibsft.decisions.selective import STARTS
from calibsft.decisions.thresholds import hundredths
from calibsft.errors import InputError

DELTA = 0.05


def at_most(errors: int, n: int, rate: float) -> float:
    """The probability of so few errors, summed term by term."""
    return math.fsum(math.comb(n, k) * rate**k * (1 - rate) ** (n - k) for k in range(errors + 1))


def ids(count: int) -> list[str]:
    return [f"q{number}" for number in range(count)]


# The bound


@pytest.mark.parametrize("n", [1, 2, 7, 40, 150])
@pytest.mark.parametrize("delta", [0.5, 0.05, 0.05 / 101, 1e-9])
def test_at_the_bound_so_few_errors_have_exactly_the_probability_delta(n: int, delta: float) -> None:
    for errors in {0, 1, n // 3, n - 1} - {n}:
        bound = float(error_rate_upper_bound(errors, n, delta))
        assert at_most(errors, n, bound) == pytest.approx(delta, rel=1e-6)


def test_the_bound_is_one_where_nothing_was_counted_or_all_was_wrong() -> None:
    assert error_rate_upper_bound([0, 1, 9], [0, 1, 9], DELTA).tolist() == [1.0, 1.0, 1.0]


def test_the_bound_rises_with_errors_and_with_certainty_and_falls_with_responses() -> None:
    errors, n = np.arange(50), np.arange(10, 500)
    assert (np.diff(error_rate_upper_bound(errors, 60, DELTA)) > 0).all()
    assert (np.diff(error_rate_upper_bound(4, n, DELTA)) < 0).all()
    bounds = [float(error_rate_upper_bound(4, 60, delta)) for delta in (0.5, 0.1, 0.01, 0.001)]
    assert bounds == sorted(bounds) and bounds[0] > 4 / 60


@pytest.mark.parametrize("risk, fewest", [(0.05, 149), (0.10, 73), (0.20, 35)])
def test_without_an_error_so_many_questions_are_needed(risk: float, fewest: int) -> None:
    for count, threshold in ((fewest, 0), (fewest - 1, None)):
        assert certify([0.9] * count, [True] * count, ids(count), risk).threshold == threshold


# The threshold


def test_every_decimal_reaches_its_own_hundredth_and_what_lies_between_the_one_below() -> None:
    grid = np.array([float(f"{k / 100:.2f}") for k in range(101)])
    assert hundredths(grid).tolist() == list(range(101))
    assert hundredths(grid.astype(np.float32)).tolist() == list(range(101))
    below = np.nextafter(grid[1:], 0)
    assert hundredths(below).tolist() == list(range(100))
    assert hundredths(np.nextafter(grid[:-1], 1)).tolist() == list(range(100))
    assert hundredths(np.array([0.2899, 0.295, 2 / 3, 1e-9])).tolist() == [28, 29, 66, 0]


def test_a_hundredth_is_reached_exactly_where_the_confidence_is_no_smaller() -> None:
    random = np.random.default_rng(0)
    values = np.concatenate([random.random(2000), random.integers(0, 10, 200) / 9])
    for value, reached in zip(values.tolist(), hundredths(values).tolist(), strict=True):
        assert (
            Fraction(reached, 100) <= Fraction(value).limit_denominator(10**15) < Fraction(reached + 1, 100)
        )


def test_the_lowest_passing_threshold_is_taken_and_every_candidate_is_shown() -> None:
    confidence = [0.29] * 100 + [0.9] * 100
    correct = [True, False] * 50 + [True] * 100
    found = certify(confidence, correct, ids(200), 0.1)
    assert (found.threshold, found.questions, found.risk, found.delta) == (0.3, 200, 0.1, DELTA)
    assert [candidate.threshold for candidate in found.candidates] == [k / 100 for k in range(101)]
    low, high, none = (found.candidates[threshold] for threshold in (29, 30, 91))
    assert (low.accepted, low.errors, low.error_rate, low.passes) == (200, 50, 0.25, False)
    assert (high.accepted, high.errors, high.error_rate, high.passes) == (100, 0, 0.0, True)
    assert high.bound == pytest.approx(1 - (DELTA / 101) ** (1 / 100))
    assert (none.accepted, none.error_rate, none.bound, none.passes) == (0, None, 1.0, False)


def test_a_lower_threshold_may_pass_where_a_higher_one_does_not() -> None:
    confidence = [0.5] * 200 + [0.99] * 5
    assert certify(confidence, [True] * 200 + [False] * 5, ids(205), 0.1).threshold == 0


def test_where_nothing_is_certain_it_abstains_on_everything() -> None:
    found = certify([0.9] * 50, [True] * 50, ids(50), 0.1)
    assert found.threshold is None and not any(candidate.passes for candidate in found.candidates)


def test_a_fixed_sequence_needs_fewer_questions_and_stops_at_the_first_failure() -> None:
    count = math.ceil(math.log(DELTA / len(STARTS)) / math.log(1 - 0.1))
    for questions, threshold in ((count, 0), (count - 1, None)):
        found = certify(
            [0.99] * questions, [True] * questions, ids(questions), 0.1, procedure="fixed-sequence"
        )
        assert (found.threshold, found.procedure) == (threshold, "fixed-sequence")
    assert count == 51
    # Too many errors between 0.61 and 0.69, none elsewhere: sequences from above end there, and none starts below but at
    # 0.60 and further down, where the errors are diluted.
    confidence = [0.99] * 60 + [0.65] * 30 + [0.55] * 400
    correct = [True] * 60 + [False] * 30 + [True] * 400
    found = certify(confidence, correct, ids(490), 0.1, procedure="fixed-sequence")
    passing = {k for k, candidate in enumerate(found.candidates) if candidate.passes}
    assert passing == {*range(66, 99), *range(0, 51)} and found.threshold == 0
    assert found.candidates[55].bound <= 0.1 and not found.candidates[55].passes


def test_a_response_without_a_confidence_is_never_answered_but_counts_in_the_coverage() -> None:
    # At threshold 0 every stated confidence is answered; 100 wrong answers without one would break any budget.
    confidence = [0.0] * 100 + [None] * 100
    found = certify(confidence, [True] * 100 + [False] * 100, ids(200), 0.1)
    assert (found.threshold, found.questions, found.coverage) == (0, 200, 0.5)
    assert (found.candidates[0].accepted, found.candidates[0].errors) == (100, 0)
    none = certify([None] * 100, [True] * 100, ids(100), 0.1)
    assert none.threshold is None and none.coverage == 0 and none.chosen is None
    assert {candidate.accepted for candidate in none.candidates} == {0}
    halves = answered_held_out(confidence, [True] * 100 + [False] * 100, ids(200), [0.3])
    assert (halves.risk == 0).all() and halves.coverage.mean() == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("dtype", [pl.Float32, pl.Float64])
def test_missing_confidences_do_not_move_the_others(dtype: pl.DataType) -> None:
    # 0.29 as a float32 is less than 0.29
    confidence = pl.Series([0.29] * 80 + [None], dtype=dtype)
    found = certify(confidence, [True] * 81, ids(81), 0.1)
    assert (found.candidates[29].accepted, found.candidates[30].accepted) == (80, 0)


@pytest.mark.parametrize("choice", ["first", "random"])
def test_several_responses_certify_what_one_of_each_question_does(choice: str) -> None:
    rows = answers(600, 5, seed=4).sample(fraction=1, shuffle=True, seed=0)
    columns = rows["confidence"], rows["correct"], rows["question"]
    found = certify(*columns, 0.3, per_question=choice, seed=3)
    assert (found.questions, found.candidates[0].accepted) == (600, 600)
    by_list = certify(*map(pl.Series.to_list, columns), 0.3, per_question=choice, seed=3)
    assert by_list == found
    backwards = certify(*(column.reverse() for column in columns), 0.3, per_question=choice, seed=3)
    assert (backwards == found) == (choice == "random")
    assert (certify(*columns, 0.3, per_question=choice, seed=8) == found) == (choice == "first")
    if choice == "first":
        first = rows.unique("question", keep="first")
        assert found == certify(first["confidence"], first["correct"], first["question"], 0.3)


def test_an_unknown_procedure_is_refused_by_name() -> None:
    with pytest.raises(
        InputError, match=r"unknown procedure 'fixed' \(known: union, fixed-sequence, recycled, split\)"
    ):
        certify([0.9], [True], ["a"], 0.1, procedure="fixed")


def test_several_responses_to_a_question_are_refused_with_reason_and_remedy() -> None:
    with pytest.raises(
        InputError, match=r"question 'b' has several responses \(1 such questions\).*keep one"
    ):
        certify([0.9] * 3, [True] * 3, ["a", "b", "b"], 0.1)


@pytest.mark.parametrize("risk, delta", [(0, 0.05), (1, 0.05), (math.nan, 0.05), (0.1, 0), (0.1, 1.5)])
def test_risks_and_probabilities_outside_their_range_are_refused(risk: float, delta: float) -> None:
    with pytest.raises(InputError, match="give a number between 0 and 1"):
        certify([0.9], [True], ["a"], risk, delta)


def test_a_confidence_out_of_range_is_refused_by_its_place() -> None:
    with pytest.raises(InputError, match=r"confidence at index 1 is 1\.5"):
        certify([0.9, 1.5], [True, True], ["a", "b"], 0.1)


# Coverage on the other half


def answers(questions: int, samples: int, seed: int = 0) -> pl.DataFrame:
    """A calibrated model: right as often as it says."""
    random = np.random.default_rng(seed)
    reached = random.integers(0, 101, questions * samples)
    question = [f"q{index // samples:04d}" for index in range(questions * samples)]
    right = random.random(questions * samples) < reached / 100
    return pl.DataFrame({"question": question, "confidence": reached / 100, "correct": right})


def coverage(rows: pl.DataFrame, risks: tuple[float, ...], **options: int) -> NDArray[np.float64]:
    return answered_held_out(rows["confidence"], rows["correct"], rows["question"], risks, **options).coverage


def test_coverage_grows_with_the_risk_budget_and_stays_below_a_perfect_ranking() -> None:
    rows, risks = answers(40_000, 1), (0.05, 0.1, 0.2, 0.3, 0.4, 0.55)
    shares = coverage(rows, risks)
    assert shares.shape == (10, 6) and (np.diff(shares, axis=1) >= 0).all()
    accuracy = rows["correct"].mean()
    ideal = [perfect_ranking(accuracy, risk) for risk in risks]
    assert (shares.mean(axis=0) <= ideal).all() and shares[:, -1].tolist() == [1.0] * 10
    # accepting from confidence 1 - 2r on has the error rate r
    assert shares[:, 2].mean() == pytest.approx(0.4, abs=0.05) and shares[:, 2].mean() < 0.4


def test_coverage_does_not_depend_on_the_order_of_the_rows() -> None:
    rows = answers(300, 4)
    shuffled = rows.sample(fraction=1, shuffle=True, seed=1)
    assert (coverage(rows, (0.2, 0.4)) == coverage(shuffled, (0.2, 0.4))).all()
    assert (coverage(rows, (0.2, 0.4)) != coverage(rows, (0.2, 0.4), seed=1)).any()


def test_one_response_per_question_certifies_however_many_there_are() -> None:
    # 60 questions on the certifying half cannot certify a risk of 0.1, though they have 1,920 responses
    rows = answers(120, 32).with_columns(confidence=0.95, correct=True)
    assert (coverage(rows, (0.1,)) == 0).all() and (coverage(rows, (0.15,)) == 1).all()


def test_the_halves_share_no_question() -> None:
    # Certain and right on half of the questions: what is held out is all responses of the other questions.
    rows = answers(400, 3).with_columns(confidence=1.0, correct=True)
    doubtful = rows.head(600).with_columns(confidence=0.0, correct=False)
    shares = coverage(pl.concat([doubtful, rows.tail(600)]), (0.2,))[:, 0]
    # 200 held-out questions with 3 responses each
    assert all(round(share * 600) % 3 == 0 for share in shares) and 0.3 < shares.mean() < 0.7
    assert len(set(shares.tolist())) > 1


def test_a_single_question_certifies_nothing() -> None:
    assert coverage(answers(1, 5), (0.5, 0.9)).tolist() == [[0.0, 0.0]] * 10


def test_a_perfect_ranking_covers_what_the_published_table_says() -> None:
    assert perfect_ranking(0.738, 0.1) == pytest.approx(0.82) and perfect_ranking(0.6, 0.5) == 1
