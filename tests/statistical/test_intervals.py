"""Intervals by drawing questions, where draws are biased: they hold the estimate always, and the truth mostly."""

import numpy as np
import polars as pl
import pytest

from calibsft.metrics import METRICS, score_table
from calibsft.metrics.compare import differences
from calibsft.metrics.registry import COMPARED

UNTOLD = ("support", "top1", "top3")
TRIALS = 40


def stated(probabilities: np.ndarray, questions: int, samples: int, seed: int) -> pl.DataFrame:
    """Responses that state one of some values; those to one question state the same one half of the time."""
    rng, values = np.random.default_rng(seed), len(probabilities)
    favourite = rng.choice(values, questions, p=probabilities)[:, None]
    free = rng.choice(values, (questions, samples), p=probabilities)
    chosen = free if samples == 1 else np.where(rng.random(free.shape) < 0.5, favourite, free)
    confidence = chosen.ravel() / values
    return pl.DataFrame(
        {
            "question_id": np.repeat(np.arange(questions), samples).astype(str),
            "dataset": np.repeat(np.where(np.arange(questions) % 2, "x", "y"), samples),
            "confidence": confidence,
            "correct": rng.random(len(confidence)) < confidence,
        }
    )


@pytest.mark.parametrize("values", [3, 20, 100])
def test_intervals_hold_the_estimate_of_every_metric(values: int) -> None:
    names = [name for name in METRICS if name not in UNTOLD]
    even = np.full(values, 1 / values)
    for seed in range(3):
        scores = score_table(stated(even, 200, 1, seed), intervals=True, interval_metrics=names)
        parts = [scores["overall"], *scores["datasets"].values(), *scores["splits"].values()]
        for part, name in ((part, name) for part in parts for name in names):
            low, high = part["intervals"][name]
            assert low - 1e-12 <= part[name] <= high + 1e-12, (name, part[name], low, high)
            assert low >= 0 and (high <= 1 or name == "effective_support")


@pytest.mark.parametrize("seed", range(5))
def test_intervals_of_differences_hold_the_difference(seed: int) -> None:
    even, few = np.full(100, 1 / 100), np.full(4, 1 / 4)
    found = differences(stated(even, 200, 1, seed), stated(few, 200, 1, seed), COMPARED, 200)
    for part in (found["overall"], *found["datasets"].values(), *found["splits"].values()):
        for name, one in part.items():
            assert one["low"] <= one["difference"] <= one["high"], name


@pytest.mark.parametrize(
    ("values", "spread", "questions", "samples"),
    [(20, 1.0, 100, 1), (100, 1.0, 500, 1), (100, 50.0, 500, 1), (10, 1.0, 60, 8), (20, 0.3, 500, 4)],
)
def test_intervals_of_effective_support_cover_the_truth(
    values: int, spread: float, questions: int, samples: int
) -> None:
    """95 % are asked for; quantiles of the draws cover it in 0 to 50 % where there are many values."""
    often = np.random.default_rng(values).dirichlet(np.full(values, spread))
    truth = np.exp(-(often * np.log(often)).sum())
    held = 0
    for seed in range(TRIALS):
        rows = stated(often, questions, samples, seed).drop("dataset")
        low, high = score_table(rows, True, ["effective_support"])["overall"]["intervals"][
            "effective_support"
        ]
        held += low <= truth <= high
    assert held >= 0.8 * TRIALS


def test_differences_of_effective_support_cover_the_truth() -> None:
    probabilities = np.random.default_rng(1).dirichlet(np.full(60, 1.0))
    held = 0
    for seed in range(TRIALS):
        pair = (stated(probabilities, 200, 2, 2 * seed + side) for side in (0, 1))
        found = differences(*pair, ["effective_support"], 200)["overall"]["effective_support"]
        held += found["low"] <= 0 <= found["high"]
    assert held >= 0.85 * TRIALS


def test_what_draws_do_not_tell_has_no_interval() -> None:
    rows = stated(np.full(100, 1 / 100), 100, 1, 0)
    nothing = dict.fromkeys(UNTOLD)
    assert score_table(rows, True, UNTOLD)["overall"]["intervals"] == nothing
    assert differences(rows, rows, UNTOLD, 50)["overall"] == nothing
