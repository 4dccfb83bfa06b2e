"""What calibrated confidences would show: outcomes as they claim, and the band of their curves.

A response that states c is drawn as right with probability c, independently of the others.
Responses to one question are not independent, so tables of several responses per question do not
belong here: take one response to each (`calibration_check.one_response_each`).
"""

from collections.abc import Iterator

import numpy as np

from calibsft.metrics.recalibration import recalibrated
from calibsft.metrics.table import ConfidenceTable, FloatArray, IntArray

DRAWS = 1000
BAND_LEVEL = 0.9
BAND_DRAWS = 300
# A band is known at no more values than a picture can show.
BAND_VALUES = 101


def calibrated_draws(table: ConfidenceTable, draws: int = DRAWS, seed: int = 0) -> Iterator[ConfidenceTable]:
    """Tables with the same stated confidences and drawn outcomes."""
    random = np.random.default_rng(seed)
    for _ in range(draws):
        right: IntArray = random.binomial(table.n, table.values).astype(np.int64)
        yield ConfidenceTable(table.values, table.n, right)


def consistency_band(
    table: ConfidenceTable, draws: int = BAND_DRAWS, seed: int = 0
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Stated values, and between which recalibrated ones 90 % of the draws lie at each of them.

    A band at each value: a calibrated model leaves it somewhere more often than in 10 % of cases.
    """
    shown = np.unique(np.linspace(0, len(table.values) - 1, BAND_VALUES).astype(np.int64))
    curves = [recalibrated(drawn)[shown] for drawn in calibrated_draws(table, draws, seed)]
    low, high = np.quantile(curves, [(1 - BAND_LEVEL) / 2, (1 + BAND_LEVEL) / 2], axis=0)
    return table.values[shown], low, high
