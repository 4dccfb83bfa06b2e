"""Does the stated confidence match how often the answers are right: Brier score, ECE, PCE, reliability bins.

Functions of a `ConfidenceTable`; lower is better for all but accuracy and mean confidence. Does not measure whether
confidence separates right from wrong answers: that is `ranking`. Never read calibration without it.
"""

from dataclasses import dataclass

import numpy as np

from calibsft.metrics.metric import HEADLINE, Metric
from calibsft.metrics.table import ConfidenceTable


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """One bin of a reliability diagram; `confidence` and `accuracy` are means, None in an empty bin."""

    low: float
    high: float
    count: int
    confidence: float | None
    accuracy: float | None

    @property
    def gap(self) -> float:
        """|accuracy - confidence|, 0 in an empty bin."""
        return abs(self._over)

    @property
    def excess(self) -> float:
        """How far confidence exceeds accuracy; 0 if it does not, and in an empty bin."""
        return max(0.0, self._over)

    @property
    def _over(self) -> float:
        return 0.0 if self.confidence is None or self.accuracy is None else self.confidence - self.accuracy


def accuracy(table: ConfidenceTable) -> float:
    """Share of correct responses (Pass@1), in [0, 1]."""
    return int(table.k.sum()) / table.responses


def mean_confidence(table: ConfidenceTable) -> float:
    """Mean stated confidence, in [0, 1]; on its own neither good nor bad."""
    return float((table.n * table.values).sum()) / table.responses


def brier(table: ConfidenceTable) -> float:
    """Mean squared difference between confidence and correctness, in [0, 1]; 0 is best.

    Always answering 0.5 scores 0.25, and a constant equal to the accuracy a scores a(1 - a).
    """
    squares = table.k * (1.0 - table.values) ** 2 + table.wrong * table.values**2
    return float(squares.sum()) / table.responses


def expected_calibration_error(table: ConfidenceTable, bins: int = 10, right_closed: bool = False) -> float:
    """Mean |accuracy - confidence| over equal-width bins, weighted by bin size, in [0, 1]; 0 is best.

    A constant confidence equal to the accuracy scores 0, so read it beside AUROC, and average it over
    datasets rather than pooling them. See `reliability_bins` for the bins.
    """
    gaps = (part.count * part.gap for part in reliability_bins(table, bins, right_closed))
    return sum(gaps) / table.responses


def positive_calibration_error(table: ConfidenceTable, bins: int = 10, right_closed: bool = False) -> float:
    """The part of ECE that is over-confidence: mean of max(0, confidence - accuracy) over its bins; 0 is best.

    A model that is never too sure scores 0, however unsure it is of right answers.
    """
    parts = reliability_bins(table, bins, right_closed)
    return sum(part.count * part.excess for part in parts) / table.responses


def reliability_bins(
    table: ConfidenceTable, bins: int = 10, right_closed: bool = False
) -> tuple[ReliabilityBin, ...]:
    """Cut the table into equal-width bins.

    Parameters
    ----------
    table : the counted responses.
    bins : how many bins, at least 1.
    right_closed : False gives [i/bins, (i+1)/bins) with 1.0 in the last bin; True gives
        (i/bins, (i+1)/bins] with 0.0 in the first, as Guo et al. (2017) do.

    Returns
    -------
    All bins in ascending order, empty ones included. Exact for decimal confidences: 0.30 is in the bin that starts at
    0.3, because i/bins is the float that the decimal text denotes.
    """
    inner_edges = np.arange(1, bins) / bins
    cuts = np.searchsorted(table.values, inner_edges, side="right" if right_closed else "left")
    starts = [0, *cuts.tolist(), len(table.values)]
    return tuple(_bin(table, i / bins, (i + 1) / bins, starts[i], starts[i + 1]) for i in range(bins))


def _bin(table: ConfidenceTable, low: float, high: float, start: int, stop: int) -> ReliabilityBin:
    n = table.n[start:stop]
    count = int(n.sum())
    if count == 0:
        return ReliabilityBin(low, high, 0, None, None)
    stated = float((n * table.values[start:stop]).sum())
    return ReliabilityBin(low, high, count, stated / count, int(table.k[start:stop].sum()) / count)


ACCURACY = Metric("pass@1", "Pass@1", "higher", of=accuracy, views=HEADLINE)
MEAN_CONFIDENCE = Metric("mean_confidence", "Mean confidence", of=mean_confidence)
BRIER = Metric("brier", "Brier", "lower", of=brier, views=HEADLINE)
ECE = Metric("ece", "ECE", "lower", of=expected_calibration_error, views=HEADLINE, pooled=True)
PCE = Metric("pce", "PCE", "lower", of=positive_calibration_error)
