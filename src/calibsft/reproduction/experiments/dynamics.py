"""Training dynamics and exploration: RLCR, CoCA and DCPO with and without CalibSFT, on the responses that they sampled."""

from collections.abc import Callable

import numpy as np
import polars as pl

from calibsft.metrics.correlation import pearson
from calibsft.metrics.metric import Column, fraction, one_decimal, percent
from calibsft.report.figures.calibration_curves import CALIBRATION_CURVES
from calibsft.report.figures.exploration_curves import EXPLORATION_CURVES
from calibsft.reproduction.arms import pairs
from calibsft.reproduction.drawings import trained
from calibsft.reproduction.experiment import Cells, Drawing, Experiment
from calibsft.reproduction.quantity import Quantity, by_seed
from calibsft.reproduction.study import Study, Trained

METHODS = ("RLCR", "CoCA", "DCPO")
ROWS = pairs(METHODS)
METRICS = ("pass@1", "auroc", "brier", "ece", "effective_support")
DISTINCT, ENTROPY = "distinct_values", "confidence_entropy"


def measure(study: Study) -> Cells:
    cells = {row: _measured(study.model(*pipeline)) for row, pipeline in ROWS.items()}
    three = [cells[method] for method in METHODS]
    cells["Three from base"] = {
        f"{column}.{end}": pick(np.stack([row[column] for row in three]), axis=0)
        for column in (f"{when}.{metric}" for when in ("start", "end") for metric in METRICS)
        for end, pick in (("min", np.min), ("max", np.max))
    }
    return cells


def _measured(model: Trained) -> dict[str, Quantity]:
    steps = model.steps()

    def over(measured: Callable[[pl.DataFrame], float]) -> Quantity:
        return by_seed(measured(one) for one in steps)

    found: dict[str, Quantity] = {}
    for metric in METRICS:
        found |= {
            f"start.{metric}": over(lambda one, m=metric: _tenths(one, m)[0]),  # type: ignore[misc]
            f"end.{metric}": over(lambda one, m=metric: _tenths(one, m)[-1]),  # type: ignore[misc]
            f"mean.{metric}": over(lambda one, m=metric: _mean(one[m])),  # type: ignore[misc]
        }
    return found | {
        DISTINCT: over(lambda one: _mean(one[DISTINCT])),
        ENTROPY: over(lambda one: _mean(one[ENTROPY])),
        f"{ENTROPY}.min": over(lambda one: min(_tenths(one, ENTROPY))),
        f"{ENTROPY}.max": over(lambda one: max(_tenths(one, ENTROPY))),
        f"{DISTINCT}.correlation": over(
            lambda one: pearson(one[DISTINCT].to_list(), one[ENTROPY].to_list()) or 0.0
        ),
        "incorrect.below_half": over(lambda one: _mean(one["wrong_below_half"])),
        "start.incorrect.below_half": over(lambda one: _tenths(one, "wrong_below_half")[0]),
    }


def _tenths(steps: pl.DataFrame, metric: str) -> list[float]:
    """The mean of a metric over each tenth of the steps."""
    parts = np.array_split(steps[metric].to_numpy(), min(10, len(steps)))
    return [float(np.nanmean(part)) for part in parts]


def _mean(values: pl.Series) -> float:
    return float(np.nanmean(values.to_numpy()))


DYNAMICS = Experiment(
    "dynamics",
    "Training dynamics and exploration",
    "Figures rlcr_training_calibration, training_dynamics_calibration, training_dynamics_support",
    tuple(ROWS.values()),
    measure,
    (
        *(
            Column(f"{when}.{metric}", f"{title} {when}", None, fraction)
            for metric, title in (("ece", "ECE"), ("auroc", "AUROC"), ("brier", "Brier"))
            for when in ("start", "end")
        ),
        Column(DISTINCT, "Distinct values / question", None, one_decimal),
        Column(ENTROPY, "Confidence entropy", None, fraction),
        Column("incorrect.below_half", "Wrong below 0.5", None, percent),
    ),
    "Start and end are the means of the first and the last tenth of the rollout steps.",
    (
        Drawing("dynamics-calibration", CALIBRATION_CURVES, lambda study: trained(study, ROWS)),
        Drawing("dynamics-exploration", EXPLORATION_CURVES, lambda study: trained(study, ROWS)),
    ),
)
