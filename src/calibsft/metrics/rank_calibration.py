"""Does accuracy rise with confidence: Rank Calibration Error (Huang et al., 2024), and a form that respects ties.

Functions of a `ConfidenceTable`; 0 is best, and a confidence without information gets about a third. Only the order of
confidences counts, not their size, so read it beside `calibration`. Ranks and accuracies are exact.
"""

from collections.abc import Sequence
from fractions import Fraction
from itertools import groupby, pairwise

import numpy as np

from calibsft.metrics.metric import Metric
from calibsft.metrics.table import ConfidenceTable

BINS = 20


def rank_calibration_error(table: ConfidenceTable, bins: int = BINS) -> float | None:
    """Mean gap between a response's rank by confidence and by the accuracy of its bin, in [0, 1]; 0 is best.

    Responses are sorted by falling confidence and cut into bins of equal size at round(i n / bins). Responses with the same
    value share their mean correctness, so the order of the rows does not matter. Few distinct values are enough to raise
    it: see `rank_calibration_error_tied`. None for a single response.
    """
    n = table.responses
    if n < 2:
        return None
    ends = sorted({round(end) for end in np.linspace(0, n, bins + 1).tolist()})
    spans = list(pairwise(ends))
    right = pairwise(_right_before(table, ends))
    accuracies = [(b - a) / (end - start) for (start, end), (a, b) in zip(spans, right, strict=True)]
    sizes = [end - start for start, end in spans]
    doubled = 0
    for bin_, at_least in _at_least_as_large(accuracies, sizes).items():
        # Responses in bins that are at least as accurate, minus this one and half of the others in its bin.
        doubled += _distances(2 * (at_least - 1) - (sizes[bin_] - 1), *spans[bin_])
    return doubled / (2 * n * (n - 1))


def rank_calibration_error_tied(table: ConfidenceTable, bins: int = BINS) -> float:
    """RCE with bins that never split a value, and the middle rank of its bin for every response.

    In [0, 1]; 0 exactly when every bin is more accurate than the less confident ones, however few values there are.
    A value belongs to the bin in which the middle of its responses lies.
    """
    n = table.responses
    ends = np.cumsum(table.n[::-1])
    middles = 2 * ends - table.n[::-1]  # twice the middle, a whole number
    numbers = np.minimum(middles * bins // (2 * n), bins - 1)
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    sizes = np.add.reduceat(table.n[::-1], starts).tolist()
    right = np.add.reduceat(table.k[::-1], starts).tolist()
    accuracies = [Fraction(k, m) for k, m in zip(right, sizes, strict=True)]
    by_confidence = _middle_ranks(range(len(sizes)), sizes)
    by_accuracy = _middle_ranks([-accuracy for accuracy in accuracies], sizes)
    gaps = (m * abs(a - b) for m, a, b in zip(sizes, by_confidence, by_accuracy, strict=True))
    return float(sum(gaps) / (2 * n * n))


def _middle_ranks(keys: Sequence[int] | Sequence[Fraction] | range, sizes: Sequence[int]) -> list[int]:
    """Twice the middle rank of the responses of every bin when bins are sorted by `keys`; equal keys share theirs."""
    ranks, before = [0] * len(sizes), 0
    for bins in _tied_groups(keys):
        together = sum(sizes[i] for i in bins)
        for i in bins:
            ranks[i] = 2 * before + together
        before += together
    return ranks


def _at_least_as_large(keys: Sequence[Fraction], sizes: Sequence[int]) -> dict[int, int]:
    """For every bin the number of responses in bins whose key is at least as large."""
    found: dict[int, int] = {}
    before = 0
    for bins in reversed(_tied_groups(keys)):
        before += sum(sizes[i] for i in bins)
        found |= dict.fromkeys(bins, before)
    return found


def _tied_groups(keys: Sequence[int] | Sequence[Fraction] | range) -> list[list[int]]:
    """The positions of keys, grouped by equal keys, in ascending order."""
    order = sorted(range(len(keys)), key=lambda i: keys[i])
    return [list(group) for _, group in groupby(order, key=lambda i: keys[i])]


def _right_before(table: ConfidenceTable, positions: Sequence[int]) -> list[Fraction]:
    """For each position, how many of the most confident responses up to it are right; tied ones count in proportion."""
    n, k = table.n[::-1], table.k[::-1]
    before_n, before_k = np.concatenate([[0], np.cumsum(n)]), np.concatenate([[0], np.cumsum(k)])
    found = []
    for position in positions:
        block = min(int(np.searchsorted(before_n, position, side="right")) - 1, len(n) - 1)
        part = Fraction(int(k[block]), int(n[block])) * (position - int(before_n[block]))
        found.append(int(before_k[block]) + part)
    return found


def _distances(doubled: int, start: int, end: int) -> int:
    """The sum of |doubled - 2 i| over i from start to end - 1."""
    split = min(max(-(-doubled // 2), start), end)
    below = doubled * (split - start) - (split - 1 + start) * (split - start)
    above = (end - 1 + split) * (end - split) - doubled * (end - split)
    return below + above


RCE = Metric("rce", "RCE", "lower", of=rank_calibration_error)
RCE_TIE = Metric("rce_tie", "RCE-tie", "lower", of=rank_calibration_error_tied)
