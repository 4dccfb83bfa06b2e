"""Proposition 2: values that are never near the success rate cost Brier score, and sampling more of them little helps."""

from fractions import Fraction
from itertools import combinations, product
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from calibsft.metrics.table import ConfidenceTable
from calibsft.prior.floor import Groups, all_outside, brier_floor, frequent_values, largest_floor

ROUNDING = 1e-12
Question = tuple[list[int], list[bool]]


@st.composite
def questions(draw: st.DrawFn) -> list[Question]:
    """Some questions, each with its responses: hundredths of confidence, and whether they are right."""
    asked = []
    for _ in range(draw(st.integers(1, 4))):
        n = draw(st.integers(2, 6))
        stated = draw(st.lists(st.integers(0, 100), min_size=n, max_size=n))
        asked.append((stated, draw(st.lists(st.booleans(), min_size=n, max_size=n))))
    return asked


def grouped(asked: list[Question], seed: int = 0) -> Groups:
    """The questions as groups, from rows in any order."""
    rows = [
        (i, c / 100, z) for i, (stated, right) in enumerate(asked) for c, z in zip(stated, right, strict=True)
    ]
    order = np.random.default_rng(seed).permutation(len(rows))
    question, confidence, correct = (np.array([rows[i][column] for i in order]) for column in range(3))
    groups = Groups.from_rows(confidence, correct, question)
    assert groups is not None
    return groups


def distances(asked: list[Question]) -> list[list[Fraction]]:
    """Per question how far each stated value is from its success rate, exactly."""
    return [
        [abs(Fraction(c, 100) - Fraction(sum(right), len(right))) for c in stated] for stated, right in asked
    ]


def floors(groups: Groups, draws: int) -> NDArray[np.float64]:
    distance = np.abs(groups.confidence - groups.repeat(groups.success))
    return largest_floor(groups.ascending(distance), groups, draws)


@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(1, 9)), min_size=1, max_size=6),
    st.fractions(0, 1),
    st.fractions(Fraction(1, 1000), 1),
)
def test_the_proposition_holds_exactly(weighted: list[tuple[int, int]], p: Fraction, delta: Fraction) -> None:
    total = sum(weight for _, weight in weighted)
    prior = [(Fraction(c, 100), Fraction(weight, total)) for c, weight in weighted]
    brier = sum(share * (p * (c - 1) ** 2 + (1 - p) * c**2) for c, share in prior)
    near = sum(share for c, share in prior if abs(c - p) < delta)
    assert brier >= p * (1 - p) + delta**2 * (1 - near)


@given(questions(), st.integers(0, 9))
def test_the_floor_is_the_largest_over_all_deltas(asked: list[Question], seed: int) -> None:
    found = floors(grouped(asked, seed), 1)
    for floor, far in zip(found, distances(asked), strict=True):
        at = [float(d**2 * sum(other >= d for other in far) / len(far)) for d in far]
        assert floor == pytest.approx(max(at), abs=ROUNDING)
        # Any other δ gives less: between two distances, and beyond them all.
        for delta in np.linspace(0.01, 1.1, 37):
            outside = sum(float(d) >= delta + ROUNDING for d in far) / len(far)
            assert delta**2 * outside <= floor + 1e-9


@given(questions())
def test_no_floor_exceeds_what_it_bounds(asked: list[Question]) -> None:
    groups = grouped(asked)
    table = ConfidenceTable.from_rows(groups.confidence, groups.correct)
    found = brier_floor(groups, table, 3)
    assert found.floor.plain <= found.distance.plain + ROUNDING
    assert found.support_floor.plain <= found.distance.plain + ROUNDING
    assert found.best_of_group.plain <= found.floor.plain + ROUNDING
    for bound in (found.distance, found.floor, found.support_floor, found.best_of_group):
        assert bound.less_noise == pytest.approx(max(0, bound.plain - found.noise))


@given(questions(), st.integers(1, 4))
def test_the_best_of_a_group_is_at_least_as_far_as_its_floor(asked: list[Question], draws: int) -> None:
    for floor, far in zip(floors(grouped(asked), draws), distances(asked), strict=True):
        # As the file holds them: so many of a question's responses, or with replacement where it has fewer.
        groups = list(combinations(far, draws) if len(far) >= draws else product(far, repeat=draws))
        best = sum(min(group) ** 2 for group in groups) / len(groups)
        assert floor <= float(best) + ROUNDING


@given(questions())
def test_a_constant_confidence_attains_the_floor(asked: list[Question]) -> None:
    same = [([stated[0]] * len(stated), right) for stated, right in asked]
    groups = grouped(same)
    found = brier_floor(groups, ConfidenceTable.from_rows(groups.confidence, groups.correct), 8)
    assert found.floor.plain == pytest.approx(found.distance.plain)
    assert found.best_of_group.plain == pytest.approx(found.distance.plain)
    # A constant cannot know more than its question: what it loses is its distance, less the noise.
    assert found.excess == pytest.approx(found.distance.plain - found.noise)


@given(st.integers(1, 8), st.integers(0, 12), st.fractions(0, 1))
def test_the_chance_that_a_whole_group_is_far_is_estimated_without_bias(
    draws: int, more: int, far: Fraction
) -> None:
    n = draws + more
    estimates = all_outside(np.arange(n + 1), np.full(n + 1, n), draws)
    weights = [float(comb(n, k) * far**k * (1 - far) ** (n - k)) for k in range(n + 1)]
    assert weights @ estimates == pytest.approx(float(far**draws), abs=ROUNDING)


def test_the_plain_power_would_be_biased() -> None:
    n = draws = 8
    weights = np.array([comb(n, k) * 0.9**k * 0.1 ** (n - k) for k in range(n + 1)])
    assert weights @ (np.arange(n + 1) / n) ** draws > 0.9**draws + 0.1


@given(st.lists(st.integers(1, 400), min_size=1, max_size=30))
def test_the_values_ever_stated_are_the_fewest_that_make_up_nearly_all(counts: list[int]) -> None:
    values = np.arange(len(counts)) / 100
    table = ConfidenceTable(values, np.array(counts), np.array(counts))
    found = frequent_values(table)
    kept = [counts[round(100 * value)] for value in found]
    assert 100 * sum(kept) >= 99 * sum(counts)
    assert 100 * (sum(kept) - min(kept)) < 99 * sum(counts)
    assert found.tolist() == sorted(found.tolist())
