"""The calibration check in simulation: how often it errs, what it sees, why it needs question ids.

Each world is a population whose confidences are calibrated, or are not in a known way. With 19
draws p is at most 0.05 exactly if all draws fit better than the responses, so the size of the test
is 0.05 without any approximation - over seeds: so few draws of one seed are alike in all
populations, so every population has its own.
"""

from collections.abc import Callable
from math import sqrt

import numpy as np
import pytest

from calibsft.metrics import ConfidenceTable, calibration_check, expected_calibration_error, miscalibration
from calibsft.metrics.calibrated_outcomes import calibrated_draws
from calibsft.metrics.calibration_check import likelihood_ratio

Draw = Callable[[np.random.Generator, int], np.ndarray]
Truth = Callable[[np.ndarray], np.ndarray]

LEVEL, DRAWS, POPULATIONS = 0.05, 19, 2000
# What a count with expectation LEVEL * POPULATIONS exceeds once in a thousand times.
ALLOWED = LEVEL * POPULATIONS + 3.1 * sqrt(LEVEL * (1 - LEVEL) * POPULATIONS)
STATED: dict[str, Draw] = {
    "hundredths": lambda rng, n: np.round(rng.random(n), 2),
    "narrow": lambda rng, n: np.round(rng.beta(40, 5, n), 2),
    "few values": lambda rng, n: rng.choice([0.5, 0.8, 0.9, 0.95, 1.0], n, p=[0.1, 0.2, 0.3, 0.3, 0.1]),
    "one value": lambda rng, n: np.full(n, 0.9),
    "all different": lambda rng, n: rng.random(n),
}


def rejected(stated: Draw, truth: Truth, n: int, populations: int, samples: int = 1, ids: bool = True) -> int:
    """How many populations are called uncalibrated; all responses to a question are the same."""
    rng, found = np.random.default_rng(11), 0
    for seed in range(populations):
        confidence = stated(rng, n)
        correct = rng.random(n) < truth(confidence)
        rows = [np.repeat(each, samples) for each in (confidence, correct, np.arange(n))]
        check = calibration_check(*(rows if ids else rows[:2]), draws=DRAWS, seed=seed)
        found += check["p_value"] <= LEVEL + 1e-12
    return found


@pytest.mark.parametrize("world", STATED)
def test_a_calibrated_model_is_refuted_no_more_often_than_the_level(world: str) -> None:
    assert rejected(STATED[world], lambda c: c, 60, POPULATIONS) <= ALLOWED


def test_several_responses_to_a_question_do_not_make_it_more_often() -> None:
    assert rejected(STATED["hundredths"], lambda c: c, 60, POPULATIONS, samples=8) <= ALLOWED


def test_responses_that_state_different_confidences_to_one_question_neither() -> None:
    """The question decides what is right; each response states one of two calibrated values."""
    rng, found = np.random.default_rng(3), 0
    for seed in range(POPULATIONS):
        right = rng.random(60) < 0.5
        sure = rng.random((60, 6)) < np.where(right, 0.8, 0.2)[:, None]
        confidence, correct = np.where(sure, 0.8, 0.2).ravel(), np.repeat(right, 6)
        check = calibration_check(confidence, correct, np.repeat(np.arange(60), 6), draws=DRAWS, seed=seed)
        found += check["p_value"] <= LEVEL + 1e-12
    assert found <= ALLOWED


def test_without_question_ids_repeated_questions_are_refuted_far_too_often() -> None:
    """The negative control: eight alike responses counted as if they were independent."""
    assert rejected(STATED["hundredths"], lambda c: c, 60, 200, samples=8, ids=False) > 0.4 * 200


@pytest.mark.parametrize(
    ("world", "truth"),
    [
        ("narrow", lambda c: c - 0.12),
        ("few values", lambda c: 0.5 + 0.5 * (c - 0.5)),
        ("hundredths", lambda c: 0.5 + 0.4 * (c - 0.5)),
        ("hundredths", lambda c: np.clip(0.5 + 2.5 * (c - 0.5), 0, 1)),
    ],
    ids=["too sure", "too sure of few values", "too extreme", "too timid"],
)
def test_errors_are_seen(world: str, truth: Truth) -> None:
    assert rejected(STATED[world], truth, 300, 100) > 75


def power(statistic: Callable[[ConfidenceTable], float], truth: Truth, n: int, trials: int = 150) -> int:
    """How often a test with this statistic sees the errors of a model that states few values."""
    rng, found = np.random.default_rng(5), 0
    for seed in range(trials):
        confidence = STATED["few values"](rng, n)
        table = ConfidenceTable.from_rows(confidence, rng.random(n) < truth(confidence))
        reached = statistic(table)
        found += all(statistic(drawn) < reached - 1e-9 for drawn in calibrated_draws(table, DRAWS, seed))
    return found


def test_the_likelihood_ratio_sees_what_ece_and_brier_miss() -> None:
    """Why it is the statistic: 0.90 and 0.95 turned round within a bin hide from ECE."""

    def turned(c: np.ndarray) -> np.ndarray:
        return np.select([c == 0.9, c == 0.95], [0.96, 0.9], c)

    ours = power(likelihood_ratio, turned, 600)
    assert ours > power(expected_calibration_error, turned, 600) + 40
    assert ours > power(miscalibration, turned, 600) + 25
