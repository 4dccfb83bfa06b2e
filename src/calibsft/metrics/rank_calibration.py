"""Does accuracy rise with confidence: Rank Calibration Error (Huang et al., 2024), and a form that respects ties.

Functions of a `ConfidenceTable`; 0 is best, and a confidence without information gets about a third. Only the order of
confidences counts, not their size, so read it beside `calibration`. Ranks and accuracies are exact.
"""

from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate, groupby, pairwise

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
    for size, span, (before, together) in zip(sizes, spans, _ranks(accuracies, sizes), strict=True):
        # Responses in bins that are at least as accurate, minus this one and half of the others in its bin.
        doubled += _distances(2 * (before + together - 1) - (size - 1), *span)
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
    # Twice the middle rank by confidence, and by accuracy.
    by_confidence = (2 * end - m for end, m in zip(accumulate(sizes), sizes, strict=True))
    by_accuracy = (2 * before + together for before, together in _ranks(accuracies, sizes))
    gaps = (m * abs(a - b) for m, a, b in zip(sizes, by_confidence, by_accuracy, strict=True))
    return float(sum(gaps) / (2 * n * n))


def _ranks(accuracies: Sequence[Fraction], sizes: Sequence[int]) -> list[tuple[int, int]]:
    """For every bin the number of responses in more accurate bins, and in those that are as accurate, itself included."""
    ranks, before = [(0, 0)] * len(sizes), 0
    order = sorted(range(len(sizes)), key=lambda i: -accuracies[i])
    for _, tied in groupby(order, key=lambda i: accuracies[i]):
        bins = list(tied)
        together = sum(sizes[i] for i in bins)
        for i in bins:
            ranks[i] = before, together
        before += together
    return ranks


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
