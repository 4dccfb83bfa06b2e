"""Proposition 3: the mixed target has the right mean, a smaller variance, a margin, and the same optimum.

Exactly, by summing over all 2^n outcomes of a question's rollouts with rational probabilities; for any number of
rollouts, chance, mix and scoring loss, with the outcomes counted; and by simulation at the paper's n = 50. Each
simulation carries a formula that is wrong, to show that the test could fail.
"""

from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from math import comb, isclose, log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from calibsft.targets.calibsft import mixed_target

ROLLOUTS = (1, 2, 3, 6)
CHANCES = (Fraction(1, 10), Fraction(1, 3), Fraction(1, 2), Fraction(7, 8))
MIXES = (Fraction(0), Fraction(1, 4), Fraction(1, 2), Fraction(9, 10), Fraction(1))
Z_999 = 3.2905  # two-sided 99.9 %

every_case = [
    pytest.mark.parametrize("n", ROLLOUTS),
    pytest.mark.parametrize("p", CHANCES),
    pytest.mark.parametrize("mix", MIXES),
]


def cases(test: object) -> object:
    for mark in every_case:
        test = mark(test)
    return test


def outcomes(n: int, p: Fraction, mix: Fraction) -> Iterator[tuple[Fraction, int, Fraction]]:
    """(probability, correctness of the first response, its target) for every outcome of n rollouts."""
    for z in product((0, 1), repeat=n):
        k = sum(z)
        yield p**k * (1 - p) ** (n - k), z[0], mixed_target(Fraction(k, n), bool(z[0]), mix)


def variance_factor(n: int, mix: Fraction) -> Fraction:
    return Fraction(1, n) + (1 - mix) ** 2 * (1 - Fraction(1, n))


def expected_margin(n: int, mix: Fraction) -> Fraction:
    return 1 - mix + mix / n


@cases
def test_the_expected_target_is_the_success_probability(n: int, p: Fraction, mix: Fraction) -> None:
    assert sum(weight * target for weight, _, target in outcomes(n, p, mix)) == p


@cases
def test_the_variance_is_as_stated(n: int, p: Fraction, mix: Fraction) -> None:
    variance = sum(weight * (target - p) ** 2 for weight, _, target in outcomes(n, p, mix))
    assert variance == p * (1 - p) * variance_factor(n, mix)


@cases
def test_the_expected_margin_is_as_stated(n: int, p: Fraction, mix: Fraction) -> None:
    right = sum(weight * target for weight, z, target in outcomes(n, p, mix) if z) / p
    wrong = sum(weight * target for weight, z, target in outcomes(n, p, mix) if not z) / (1 - p)
    assert right - wrong == expected_margin(n, mix)


@cases
def test_the_expected_brier_loss_is_that_of_the_bare_outcome(n: int, p: Fraction, mix: Fraction) -> None:
    for stated in (Fraction(0), Fraction(1, 7), p, Fraction(1)):
        at_right, at_wrong = (stated - 1) ** 2, stated**2
        on_target = sum(w * (t * at_right + (1 - t) * at_wrong) for w, _, t in outcomes(n, p, mix))
        assert on_target == p * at_right + (1 - p) * at_wrong


@cases
def test_the_expected_log_loss_is_that_of_the_bare_outcome(n: int, p: Fraction, mix: Fraction) -> None:
    for stated in (0.01, 0.3, float(p), 0.99):
        at_right, at_wrong = -log(stated), -log(1 - stated)
        weights = [(w, t) for w, _, t in outcomes(n, p, mix)]
        on_target = sum(float(w * t) * at_right + float(w * (1 - t)) * at_wrong for w, t in weights)
        assert isclose(on_target, float(p) * at_right + float(1 - p) * at_wrong, rel_tol=1e-12)


def test_the_papers_figures_at_fifty_rollouts() -> None:
    assert expected_margin(50, Fraction(1, 2)) == Fraction(51, 100)
    assert variance_factor(50, Fraction(1, 2)) == Fraction(265, 1000)


rollouts = st.integers(1, 60)
inside = st.fractions(Fraction(1, 50), Fraction(49, 50), max_denominator=50)
mixes = st.fractions(0, 1, max_denominator=20)


def counted_outcomes(n: int, p: Fraction, mix: Fraction) -> Iterator[tuple[Fraction, bool, Fraction]]:
    """`outcomes` for any n: the other n - 1 responses enter by how many of them are right."""
    for others in range(n):
        weight = comb(n - 1, others) * p**others * (1 - p) ** (n - 1 - others)
        for right, chance in ((True, p), (False, 1 - p)):
            yield weight * chance, right, mixed_target(Fraction(others + right, n), right, mix)


@given(rollouts, inside, mixes)
def test_mean_variance_and_margin_hold_for_any_number_of_rollouts(n: int, p: Fraction, mix: Fraction) -> None:
    found = list(counted_outcomes(n, p, mix))
    assert sum(weight for weight, _, _ in found) == 1
    assert sum(weight * target for weight, _, target in found) == p
    variance = sum(weight * (target - p) ** 2 for weight, _, target in found)
    assert variance == p * (1 - p) * variance_factor(n, mix)
    right = sum(weight * target for weight, z, target in found if z) / p
    wrong = sum(weight * target for weight, z, target in found if not z) / (1 - p)
    assert right - wrong == expected_margin(n, mix)


@given(rollouts, inside, mixes, st.fractions(), st.fractions())
def test_any_scoring_loss_has_the_expectation_that_it_has_on_the_bare_outcome(
    n: int, p: Fraction, mix: Fraction, at_right: Fraction, at_wrong: Fraction
) -> None:
    """A loss at one prediction is any two numbers, one for right and one for wrong, and in between on a line."""
    found = counted_outcomes(n, p, mix)
    on_target = sum(weight * (t * at_right + (1 - t) * at_wrong) for weight, _, t in found)
    assert on_target == p * at_right + (1 - p) * at_wrong


LOSSES = {
    "brier": lambda c: ((1 - c) ** 2, c**2),
    "log": lambda c: (-log(c), -log(1 - c)),
    "spherical": lambda c: (-c / sqrt(c**2 + (1 - c) ** 2), -(1 - c) / sqrt(c**2 + (1 - c) ** 2)),
}


@pytest.mark.parametrize("name", LOSSES)
@given(rollouts, inside, mixes, st.floats(0.001, 0.999))
def test_no_other_prediction_has_as_small_an_expected_loss_as_the_success_probability(
    name: str, n: int, p: Fraction, mix: Fraction, stated: float
) -> None:
    found = [(float(weight), float(t)) for weight, _, t in counted_outcomes(n, p, mix)]

    def expected(prediction: float) -> float:
        at_right, at_wrong = LOSSES[name](prediction)
        return sum(weight * (t * at_right + (1 - t) * at_wrong) for weight, t in found)

    if abs(stated - float(p)) > 0.001:
        assert expected(stated) > expected(float(p))


@given(rollouts.filter(lambda n: n > 1), mixes, st.data())
def test_within_a_group_right_and_wrong_targets_are_one_less_the_mix_apart(
    n: int, mix: Fraction, data: st.DataObject
) -> None:
    rate = Fraction(data.draw(st.integers(1, n - 1)), n)
    assert mixed_target(rate, True, mix) - mixed_target(rate, False, mix) == 1 - mix


@pytest.mark.parametrize("p", CHANCES)
def test_the_papers_figures_are_those_of_the_targets_themselves(p: Fraction) -> None:
    found = list(counted_outcomes(50, p, Fraction(1, 2)))
    variance = sum(weight * (target - p) ** 2 for weight, _, target in found)
    assert variance == Fraction(265, 1000) * p * (1 - p)
    right = sum(weight * target for weight, z, target in found if z) / p
    wrong = sum(weight * target for weight, z, target in found if not z) / (1 - p)
    assert right - wrong == Fraction(51, 100)


def simulated(p: float, seed: int, questions: int = 40_000) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Targets and correctness of the first of 50 rollouts of many questions of one difficulty."""
    correct = np.random.default_rng(seed).random((questions, 50)) < p
    successes = correct.sum(axis=1)
    values = {
        (k, z): float(mixed_target(Fraction(k, 50), z, Fraction(1, 2)))
        for k in range(51)
        for z in (True, False)
    }
    first = correct[:, 0]
    return np.array([values[k, z] for k, z in zip(successes.tolist(), first.tolist(), strict=True)]), first


def interval(samples: NDArray[np.float64]) -> tuple[float, float]:
    half = Z_999 * samples.std(ddof=1) / sqrt(len(samples))
    return samples.mean() - half, samples.mean() + half


@pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
def test_simulation_agrees_on_the_mean_and_not_on_a_shifted_one(p: float) -> None:
    low, high = interval(simulated(p, seed=1)[0])
    assert low <= p <= high
    assert not low <= p + 0.01 <= high


@pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
def test_simulation_agrees_on_the_variance_and_not_on_that_of_independent_parts(p: float) -> None:
    targets, _ = simulated(p, seed=2)
    low, high = interval((targets - p) ** 2)
    assert low <= 0.265 * p * (1 - p) <= high
    # Forgetting that a response is part of its own success rate loses the covariance: 0.255.
    assert not low <= (0.25 / 50 + 0.25) * p * (1 - p) <= high


@pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
def test_simulation_agrees_on_the_expected_margin_and_not_on_the_margin_within_a_group(p: float) -> None:
    targets, first = simulated(p, seed=3)
    right, wrong = targets[first], targets[~first]
    half = Z_999 * sqrt(right.var(ddof=1) / len(right) + wrong.var(ddof=1) / len(wrong))
    margin = right.mean() - wrong.mean()
    assert abs(margin - 0.51) <= half
    assert abs(margin - 0.50) > half
