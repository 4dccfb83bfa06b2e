"""Seed stability: RLCR and DCPO over training seeds."""

import numpy as np

from calibsft.metrics.registry import METRICS as KNOWN
from calibsft.reproduction.arms import WITH, pairs
from calibsft.reproduction.experiment import Cells, Experiment, by_split, split_columns
from calibsft.reproduction.quantity import Quantity, exact
from calibsft.reproduction.study import Study

METRICS = ("pass@1", "auroc", "brier", "ece")
METHODS = ("RLCR", "DCPO")
ROWS = pairs(METHODS)


def measure(study: Study) -> Cells:
    cells = by_split(study, ROWS, METRICS)
    seeds = len(study.model(*ROWS["RLCR"]).models)
    cells["Seeds"] = {"count": exact(seeds)}
    if seeds > 1:  # one seed says nothing about others
        for method in METHODS:
            _add_stability(cells[method], cells[method + WITH])
    return cells


def _add_stability(before: dict[str, Quantity], after: dict[str, Quantity]) -> None:
    """Deviations over seeds, in how many seeds CalibSFT improves a metric, and by how many deviations."""
    for column in list(before):
        better = KNOWN[column.split(".", 1)[1]].better
        gain = (after[column] - before[column]) * (1 if better == "higher" else -1)
        deviations = [np.std(side[column][:, 0], ddof=1) for side in (before, after)]
        for side, deviation in zip((before, after), deviations, strict=True):
            side[f"{column}.sd"] = exact(float(deviation))
        after[f"{column}.seeds_better"] = exact(int((gain[:, 0] > 0).sum()))
        after[f"{column}.gain_in_sd"] = exact(float(gain[:, 0].mean() / max(*deviations, 1e-12)))


SEEDS = Experiment(
    "seeds", "Seed stability", "Table seed_stability", tuple(ROWS.values()), measure, split_columns(*METRICS)
)
