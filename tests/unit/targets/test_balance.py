"""Target-balanced sampling: equal groups, seeded, uniform, independent of row order."""

from collections import Counter
from fractions import Fraction
from random import Random

import pytest
from scipy.stats import chisquare

from calibsft.errors import InputError
from calibsft.targets.balance import balance

SIZES = {Fraction(1, 10): 7, Fraction(1, 3): 3, Fraction(9, 10): 20}
TARGETS = [target for target, size in SIZES.items() for _ in range(size)]
IDS = [("", f"q{i}", i) for i in range(len(TARGETS))]


def chosen_ids(targets: list[Fraction], ids: list[tuple[str, str, int]], **options: int) -> set[object]:
    return {ids[row] for row in balance(targets, ids, **({"seed": 0} | options)).rows}


def test_every_group_has_the_size_of_the_smallest() -> None:
    drawn = balance(TARGETS, IDS, seed=0)
    assert Counter(TARGETS[row] for row in drawn.rows) == dict.fromkeys(SIZES, 3)
    assert drawn.group_size == 3 and drawn.dropped == {}


def test_rows_come_ordered_by_target() -> None:
    found = [TARGETS[row] for row in balance(TARGETS, IDS, seed=0).rows]
    assert found == sorted(found)


def test_no_row_is_drawn_twice() -> None:
    rows = balance(TARGETS, IDS, seed=0).rows
    assert len(set(rows)) == len(rows)


def test_the_same_seed_draws_the_same_rows_and_another_seed_others() -> None:
    assert balance(TARGETS, IDS, seed=5) == balance(TARGETS, IDS, seed=5)
    assert chosen_ids(TARGETS, IDS, seed=5) != chosen_ids(TARGETS, IDS, seed=6)


def test_draws_under_one_seed_differ() -> None:
    draws = [frozenset(chosen_ids(TARGETS, IDS, draw=draw)) for draw in range(6)]
    assert len(set(draws)) == 6


def test_a_later_draw_is_not_the_first_draw_of_the_next_seed() -> None:
    assert chosen_ids(TARGETS, IDS, seed=0, draw=1) != chosen_ids(TARGETS, IDS, seed=1, draw=0)


def test_row_order_changes_nothing() -> None:
    order = list(range(len(TARGETS)))
    Random(1).shuffle(order)
    shuffled = [TARGETS[i] for i in order], [IDS[i] for i in order]
    drawn, again = balance(TARGETS, IDS, seed=0), balance(*shuffled, seed=0)
    assert [IDS[row] for row in drawn.rows] == [shuffled[1][row] for row in again.rows]


def test_a_row_is_not_displaced_by_rows_of_other_groups() -> None:
    rare = Fraction(1, 3)
    without = [i for i, target in enumerate(TARGETS) if target != Fraction(9, 10)]
    before = {IDS[row] for row in balance(TARGETS, IDS, seed=0).rows if TARGETS[row] == rare}
    fewer = [TARGETS[i] for i in without], [IDS[i] for i in without]
    after = {fewer[1][row] for row in balance(*fewer, seed=0).rows if fewer[0][row] == rare}
    assert before == after


def test_draws_are_uniform_over_the_rows_of_a_group() -> None:
    seeds = 4000
    counts: Counter[int] = Counter()
    for seed in range(seeds):
        counts.update(balance(TARGETS, IDS, seed).rows)
    large = [counts[row] for row, target in enumerate(TARGETS) if target == Fraction(9, 10)]
    assert sum(large) == 3 * seeds
    # Drawing 3 of 20 without replacement shrinks the statistic by 17/19: the test is conservative, and seeded.
    assert chisquare(large).pvalue > 0.001
    assert chisquare([large[0] + seeds // 10, *large[1:-1], large[-1] - seeds // 10]).pvalue < 1e-6


def test_pairs_are_drawn_uniformly_too() -> None:
    """A draw that favoured neighbours would pass the test of single rows."""
    group = [Fraction(1, 2)] * 6 + [Fraction(0)] * 2
    ids = [("", "q", i) for i in range(8)]
    pairs = Counter(tuple(sorted(r for r in balance(group, ids, seed).rows if r < 6)) for seed in range(3000))
    assert len(pairs) == 15
    assert chisquare(list(pairs.values())).pvalue > 0.001


def test_draws_of_one_seed_are_independent() -> None:
    """P(row in both of two draws) is the product of its probabilities."""
    group, ids = [Fraction(1, 2)] * 4 + [Fraction(0)] * 2, [("", "q", i) for i in range(6)]
    both = sum(
        0 in balance(group, ids, seed, 0).rows and 0 in balance(group, ids, seed, 1).rows
        for seed in range(4000)
    )
    assert abs(both - 1000) < 4 * (4000 * 0.25 * 0.75) ** 0.5


def test_small_groups_are_left_out_and_named_instead_of_shrinking_all_others() -> None:
    drawn = balance(TARGETS, IDS, seed=0, min_group=7)
    assert drawn.dropped == {Fraction(1, 3): 3}
    assert Counter(TARGETS[row] for row in drawn.rows) == {Fraction(1, 10): 7, Fraction(9, 10): 7}


def test_when_no_group_is_left_the_error_says_how_large_the_largest_is() -> None:
    with pytest.raises(
        InputError, match=r"no target group has 21 responses \(the largest has 20\); lower --m"
    ):
        balance(TARGETS, IDS, seed=0, min_group=21)


def test_nothing_to_draw_from_is_refused() -> None:
    with pytest.raises(InputError, match="the largest has 0"):
        balance([], [], seed=0)


def test_equal_values_of_different_origin_are_one_group() -> None:
    targets = [Fraction(1, 2), Fraction(2, 4), Fraction(50, 100), Fraction(1, 4)]
    assert balance(targets, list(range(4)), seed=0).group_size == 1
    assert len(balance(targets, list(range(4)), seed=0).rows) == 2
