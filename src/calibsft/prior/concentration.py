"""How concentrated the stated confidences are, for all responses and by correctness.

Functions of a `ConfidenceTable`. Does not judge: few values may be right (`verdict` decides that).
"""

from dataclasses import dataclass

import numpy as np

from calibsft.metrics.calibration import accuracy
from calibsft.metrics.diversity import effective_support, share_below_half, support, top1, top3
from calibsft.metrics.table import ConfidenceTable, FloatArray, IntArray

TOP = 3
BANDS = 10


@dataclass(frozen=True, slots=True)
class Stated:
    """A confidence and the share of the responses that state it."""

    confidence: float
    share: float


@dataclass(frozen=True, slots=True)
class Concentration:
    """How concentrated the confidences of some responses are; shares and means are in [0, 1].

    Attributes
    ----------
    n : responses.
    support, effective_support : distinct values, and exp(entropy in nats) of their distribution.
    effective_bands : the same for the bands [0, 0.1), [0.1, 0.2), … [0.9, 1], between 1 and 10. Ten values a
        hundredth apart are one band. A continuous score has as many values as responses, but at most ten bands.
    top1, top3 : share of the most frequent value, and of the three most frequent together.
    top : these three values, the most frequent first; of two equally frequent ones, the lower first.
    below_half : share of responses that state less than 0.5.
    mean_confidence, accuracy : means over the responses.
    """

    n: int
    support: int
    effective_support: float
    effective_bands: float
    top1: float
    top3: float
    top: tuple[Stated, ...]
    below_half: float
    mean_confidence: float
    accuracy: float


def concentration(table: ConfidenceTable) -> Concentration:
    """The concentration of the responses in `table`, which is not empty."""
    return Concentration(
        n=table.responses,
        support=support(table),
        effective_support=effective_support(table),
        effective_bands=effective_support(_by_band(table)),
        top1=top1(table),
        top3=top3(table),
        top=_most_frequent(table),
        below_half=share_below_half(table),
        mean_confidence=float(table.n @ table.values) / table.responses,
        accuracy=accuracy(table),
    )


def by_correctness(table: ConfidenceTable) -> tuple[Concentration | None, Concentration | None]:
    """The concentration of the correct and of the incorrect responses; None if there are none."""
    return _part(table, table.k, table.k), _part(table, table.wrong, np.zeros_like(table.k))


def band_of(values: FloatArray) -> IntArray:
    """The band of each value, from 0 to 9; exact for decimals, as in `reliability_bins`."""
    return np.searchsorted(np.arange(1, BANDS) / BANDS, values, side="right")


def _by_band(table: ConfidenceTable) -> ConfidenceTable:
    """The table with each value replaced by the lower end of its band."""
    band, where = np.unique(band_of(table.values), return_inverse=True)
    n, k = (np.bincount(where, weights=counts).astype(np.int64) for counts in (table.n, table.k))
    return ConfidenceTable(band / BANDS, n, k)


def _part(table: ConfidenceTable, n: IntArray, k: IntArray) -> Concentration | None:
    stated = n > 0
    if not stated.any():
        return None
    return concentration(ConfidenceTable(table.values[stated], n[stated], k[stated]))


def _most_frequent(table: ConfidenceTable) -> tuple[Stated, ...]:
    order = np.lexsort((table.values, -table.n))[:TOP]
    return tuple(Stated(float(table.values[i]), int(table.n[i]) / table.responses) for i in order)
