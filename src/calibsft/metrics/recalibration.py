"""The Brier score in three parts: miscalibration (MCB), discrimination (DSC) and uncertainty (UNC).

After Dimitriadis, Gneiting and Jordan (2021). The stated confidences are compared with recalibrated
ones: the rising function of confidence that has the best Brier score on these responses (isotonic
regression). There are no bins, so no choice of bins decides the result. Brier = MCB - DSC + UNC,
exactly. Does not recalibrate a model: the curve is fitted to the responses that it describes.
"""

import numpy as np

from calibsft.metrics.calibration import accuracy, brier
from calibsft.metrics.metric import Metric
from calibsft.metrics.table import ConfidenceTable, FloatArray, IntArray


def recalibrated(table: ConfidenceTable) -> FloatArray:
    """The recalibrated confidence of each distinct value: ascending, and equal where pooled."""
    n, k, sizes = _pools(table)
    return np.repeat(k / n, sizes)


def miscalibration(table: ConfidenceTable) -> float:
    """The part of Brier that recalibration would save, in [0, 1]; 0 is best.

    The curve is fitted to these responses, so a calibrated model gets more than 0 too, and the more
    the fewer responses there are. (c - a)² for a constant confidence c and the accuracy a.
    """
    # At least 0; the difference of two sums may round to less.
    return max(0.0, brier(table) - _recalibrated_brier(table))


def discrimination(table: ConfidenceTable) -> float:
    """What recalibrated confidences gain in Brier over stating the accuracy, in [0, 0.25].

    0 if all are right or all are wrong, if there is one confidence only, and if a higher one is
    never more often right.
    """
    n, k, _ = _pools(table)
    return float((n * (k / n - accuracy(table)) ** 2).sum()) / table.responses


def uncertainty(table: ConfidenceTable) -> float:
    """Brier score a(1 - a) of always stating the accuracy a: how hard it is to know what is right.

    Neither good nor bad: it depends on the accuracy alone.
    """
    return int(table.k.sum()) * int(table.wrong.sum()) / table.responses**2


def _pools(table: ConfidenceTable) -> tuple[IntArray, IntArray, IntArray]:
    """Neighbouring values that recalibration makes equal: responses, right ones, values."""
    from scipy.optimize import isotonic_regression

    starts = isotonic_regression(table.k / table.n, weights=table.n).blocks[:-1]
    sizes = np.diff(starts, append=len(table.values))
    return np.add.reduceat(table.n, starts), np.add.reduceat(table.k, starts), sizes


def _recalibrated_brier(table: ConfidenceTable) -> float:
    n, k, _ = _pools(table)
    return float((k * ((n - k) / n)).sum()) / table.responses


MCB = Metric("mcb", "MCB", "lower", of=miscalibration)
DSC = Metric("dsc", "DSC", "higher", of=discrimination, bounds=(0.0, 0.25))
UNC = Metric("unc", "UNC", of=uncertainty, bounds=(0.0, 0.25))
