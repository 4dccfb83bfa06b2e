"""Procedures: which thresholds each certifies, what it pays for, and what would be needed where none is certified."""

import numpy as np
import pytest
from numpy.typing import NDArray

from calibsft.decisions import PROCEDURES, Certificate, certify, route
from calibsft.decisions.bounds import error_rate_p_value, error_rate_upper_bound
from calibsft.decisions.procedures import FIXED_SEQUENCE, RECYCLED, SPLIT, UNION
from calibsft.decisions.selective import DELTA, FAMILY, STARTS, counted_risks
from calibsft.errors import InputError


def calibrated(questions: int, seed: int = 0) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    random = np.random.default_rng(seed)
    stated = random.beta(1.0, 0.72, questions)
    return np.floor(100 * stated).astype(np.int64), random.random(questions) < stated


def certificate(questions: int, risk: float, procedure: str = UNION, seed: int = 0) -> Certificate:
    reached, correct = calibrated(questions, seed)
    return certify(reached / 100, correct, range(questions), risk, procedure=procedure)


def test_a_p_value_is_at_most_delta_exactly_where_the_bound_is_at_most_the_rate() -> None:
    n = np.repeat(np.arange(1, 120), 5)
    errors = np.minimum(np.tile([0, 1, 3, 9, 40], 119), n)
    for delta in (0.05, 0.05 / 101):
        passes = error_rate_p_value(errors, n, 0.2) <= delta
        assert (passes == (error_rate_upper_bound(errors, n, delta) <= 0.2)).all()
        assert passes.any() and not passes.all()
    assert error_rate_p_value([0, 3], [0, 3], 0.2).tolist() == [1.0, 1.0]


def test_a_share_that_was_not_lost_is_spent_again_at_the_next_start() -> None:
    share, p_values = DELTA / len(STARTS), np.zeros(101)
    levels, certified = PROCEDURES[RECYCLED].test(p_values, DELTA, FAMILY)
    # Nothing fails: the last sequence has the whole of delta, and nothing above the first start is tested.
    assert levels[[98, 95, 90, 0]] == pytest.approx([share, 2 * share, 3 * share, DELTA])
    assert certified[:99].all() and not certified[99:].any()
    p_values[97] = 1.0  # the first sequence ends there and loses its share
    levels, certified = PROCEDURES[RECYCLED].test(p_values, DELTA, FAMILY)
    assert levels[[95, 90, 0]] == pytest.approx([share, 2 * share, 9 * share])
    assert certified[98] and not certified[96:98].any() and certified[:96].all()


def test_a_value_that_only_a_recycled_share_allows_is_certified_by_recycling_alone() -> None:
    p_values = np.full(101, 1.0)
    p_values[85:99] = 0.0
    p_values[80:85] = 1.5 * DELTA / len(STARTS)
    found = {name: PROCEDURES[name].test(p_values, DELTA, FAMILY)[1] for name in (FIXED_SEQUENCE, RECYCLED)}
    assert np.flatnonzero(found[FIXED_SEQUENCE])[0] == 85 and np.flatnonzero(found[RECYCLED])[0] == 80


@pytest.mark.parametrize("seed", range(20))
def test_recycling_certifies_all_that_the_fixed_sequence_does(seed: int) -> None:
    p_values = np.random.default_rng(seed).beta(0.3, 20, 101)
    fixed, recycled = (
        PROCEDURES[name].test(p_values, DELTA, FAMILY)[1] for name in (FIXED_SEQUENCE, RECYCLED)
    )
    assert fixed.any() and (recycled | ~fixed).all()


def test_a_split_tests_one_sequence_at_the_whole_of_delta_on_two_thirds_of_the_questions() -> None:
    table = counted_risks(*calibrated(900), DELTA, SPLIT)
    assert table.choosing is not None
    assert (table.choosing.n[0], table.testing.n[0], table.counts.n[0]) == (300, 600, 900)
    assert (table.choosing.n + table.testing.n == table.counts.n).all()
    bounds, certified = table.tested(0.2)
    expected = error_rate_upper_bound(table.testing.events, table.testing.n, DELTA)
    assert bounds == pytest.approx(expected)
    # One run of thresholds, down from the start.
    start = np.flatnonzero(certified)[-1]
    assert certified.any() and not certified[start + 1 :].any()
    assert (np.diff(np.flatnonzero(certified)) == 1).all()


def test_which_questions_choose_depends_on_the_seed_and_not_on_the_order_of_the_rows() -> None:
    reached, correct = calibrated(600)
    columns = reached / 100, correct, np.arange(600)
    found = [certify(*columns, 0.2, procedure=SPLIT, seed=seed).candidates for seed in (0, 0, 1)]
    assert found[0] == found[1] != found[2]
    order = np.random.default_rng(5).permutation(600)
    assert certify(*(column[order] for column in columns), 0.2, procedure=SPLIT).candidates == found[0]


def test_counts_of_a_split_are_of_all_questions() -> None:
    split, union = certificate(900, 0.2, SPLIT), certificate(900, 0.2)
    assert [c.accepted for c in split.candidates] == [c.accepted for c in union.candidates]
    assert split.coverage == split.chosen.accepted / 900 if split.chosen else True


@pytest.mark.parametrize("procedure", [RECYCLED, SPLIT])
def test_procedures_that_gain_nothing_for_routing_are_refused(procedure: str) -> None:
    with pytest.raises(InputError, match=rf"procedure {procedure} gains nothing for routing.*fixed-sequence"):
        route([0.9], [True], [True], ["a"], 0.1, procedure=procedure)


# What would be needed


@pytest.mark.parametrize("procedure", PROCEDURES)
def test_the_smallest_budget_is_one_that_these_questions_certify(procedure: str) -> None:
    found = certificate(300, 0.02, procedure)
    assert found.threshold is None and found.needed is not None and found.needed.budget is not None
    assert certificate(300, found.needed.budget, procedure).threshold is not None
    assert certificate(300, found.needed.budget - 0.001, procedure).threshold is None
    assert certificate(300, found.needed.budget, procedure).needed is None


def test_so_many_questions_without_an_error_would_do() -> None:
    needed = certify([0.9] * 50, [True] * 50, range(50), 0.1).needed
    assert needed is not None and needed.questions == 73
    assert needed.budget == pytest.approx(1 - (DELTA / 101) ** (1 / 50), abs=0.001)


def test_as_many_questions_as_said_certify_the_budget_in_another_draw() -> None:
    needed = certificate(400, 0.1, FIXED_SEQUENCE, seed=3).needed
    assert needed is not None and needed.questions is not None and needed.questions > 400
    enough = [certificate(2 * needed.questions, 0.1, FIXED_SEQUENCE, seed).threshold for seed in range(5)]
    assert sum(threshold is not None for threshold in enough) >= 4


def test_where_every_answer_is_wrong_nothing_would_do() -> None:
    needed = certify([0.9] * 50, [False] * 50, range(50), 0.1).needed
    assert needed is not None and (needed.budget, needed.questions) == (None, None)


def test_a_route_that_keeps_nothing_says_what_would_be_needed() -> None:
    reached, local = calibrated(300)
    found = route(reached / 100, local, [True] * 300, range(300), 0.005)
    assert found.outcome.deferred == 1 and found.needed is not None and found.needed.budget is not None
    kept = route(reached / 100, local, [True] * 300, range(300), found.needed.budget)
    assert kept.outcome.deferred < 1 and kept.needed is None
