"""The floor of Proposition 2 from sampled success rates: near 0 where confidence is right, and never too high on average.

Simulated questions whose true chances are known. Beside each statement stands what the figures would be without taking
the noise off, to show that the test could fail.
"""

import numpy as np
import pytest
from numpy.typing import NDArray

from calibsft.prior import Diagnosis, diagnose

Floats = NDArray[np.float64]
QUESTIONS = 4000


def chances(seed: int) -> Floats:
    """The chance of being right, question by question."""
    return np.random.default_rng(seed).beta(0.8, 0.8, QUESTIONS)


def diagnosed(p: Floats, stated_Q_N: Floats, seed: int) -> Diagnosis:
    """Sample correctness independently of what is stated, and diagnose."""
    n = stated_Q_N.shape[1]
    correct = np.random.default_rng(seed).random(stated_Q_N.shape) < p[:, None]
    return diagnose(stated_Q_N.ravel(), correct.ravel(), np.repeat(np.arange(len(p)), n))


@pytest.mark.parametrize("n", [4, 8, 16, 50])
def test_a_calibrated_prior_has_no_floor_and_a_sure_one_has(n: int) -> None:
    p = chances(1)
    right = diagnosed(p, np.repeat(p.round(2)[:, None], n, axis=1), 2).floor
    assert right is not None
    assert right.floor.less_noise < 0.003
    assert right.best_of_group.less_noise < 0.003
    assert abs(right.excess) < 0.003
    # Without taking the noise off, the same prior seems to cost v / n.
    assert right.floor.plain == pytest.approx((p * (1 - p)).mean() / n, rel=0.1)
    sure = diagnosed(p, np.full((QUESTIONS, n), 0.95), 3).floor
    assert sure is not None
    cost = float(((0.95 - p) ** 2).mean())
    assert sure.floor.less_noise == pytest.approx(cost, abs=0.01)
    assert sure.best_of_group.less_noise == pytest.approx(cost, abs=0.01)
    assert sure.excess == pytest.approx(cost, abs=0.01)


@pytest.mark.parametrize("n", [8, 16])
@pytest.mark.parametrize("spread", [0.02, 0.1, 0.3])
def test_less_noise_the_floor_stays_below_the_true_excess(n: int, spread: float) -> None:
    p = chances(4)
    rng = np.random.default_rng(5)
    stated = np.clip(0.7 * p[:, None] + 0.2 + rng.normal(0, spread, (QUESTIONS, n)), 0, 1).round(2)
    found = diagnosed(p, stated, 6).floor
    assert found is not None
    true_excess = float(((stated - p[:, None]) ** 2).mean())
    assert found.distance.less_noise == pytest.approx(true_excess, abs=0.004)
    assert found.distance.plain > true_excess + 0.004
    assert found.excess == pytest.approx(true_excess, abs=0.01)
    assert found.floor.less_noise <= true_excess
    nearest = np.abs(stated - p[:, None])[:, :8].min(axis=1)
    assert found.best_of_group.less_noise <= (nearest**2).mean() + 0.002


def test_the_reach_of_a_group_is_that_of_other_samples_of_the_same_questions() -> None:
    p = np.random.default_rng(7).choice([0.0, 1.0], QUESTIONS)  # success rates without noise
    stated = np.random.default_rng(8).integers(0, 101, (QUESTIONS, 16)) / 100
    found = diagnosed(p, stated, 9).floor
    assert found is not None
    # Of 101 values 10 are less than 0.1 away from 0, and 10 from 1.
    assert found.reach == pytest.approx(1 - (91 / 101) ** 8, abs=0.015)


def test_a_model_that_knows_its_own_responses_beats_the_floor() -> None:
    p = np.full(QUESTIONS, 0.5)
    correct = np.random.default_rng(10).random((QUESTIONS, 16)) < 0.5
    found = diagnose(np.where(correct, 0.95, 0.05).ravel(), correct.ravel(), np.repeat(np.arange(len(p)), 16))
    assert found.floor is not None
    assert found.floor.best_of_group.less_noise > 0.05
    assert found.floor.excess == pytest.approx(0.05**2 - 0.25, abs=0.005)
    assert found.verdict.worth_it is False
    assert any("does not bind" in note for note in found.verdict.notes)
