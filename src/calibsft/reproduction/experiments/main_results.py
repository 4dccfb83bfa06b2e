"""Main results: accuracy, discrimination and calibration of every method, from the base and from CalibSFT."""

from calibsft.reproduction.arms import ALONE, FIVE, add_means, pairs
from calibsft.reproduction.experiment import Cells, Experiment, by_split, split_columns
from calibsft.reproduction.study import Study

METRICS = ("pass@1", "auroc", "brier", "ece")
ROWS = {**ALONE, **pairs()}


def measure(study: Study) -> Cells:
    cells = by_split(study, ROWS, METRICS)
    add_means(cells, FIVE, "five")
    return cells


MAIN = Experiment(
    "main", "Main results", "Table main_results", tuple(ROWS.values()), measure, split_columns(*METRICS)
)
