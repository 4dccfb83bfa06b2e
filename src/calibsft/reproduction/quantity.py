"""Numbers of a study with what says how sure they are.

A quantity is an array (S, 1 + R): a row for each training seed; the first column is the value, the others are the same
value on R draws of the questions. All models are scored on the same draws, so that differences, means, counts and
correlations of quantities are paired by themselves. A number that needs no seeds or draws is an array (1, 1).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Quantity: TypeAlias = NDArray[np.float64]

DRAWS = 200
LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """A quantity's value with its interval, and the deviation over training seeds (n − 1); None for a single seed."""

    value: float
    low: float
    high: float
    deviation: float | None
    seeds: int


def exact(value: float) -> Quantity:
    """A number that neither other seeds nor other questions would change."""
    return np.array([[value]])


def by_seed(values: Iterable[float]) -> Quantity:
    """Numbers that other seeds would change, but not other questions."""
    return np.array([[value] for value in values])


def mean_of(parts: Sequence[Quantity]) -> Quantity:
    """The plain mean; a part without a value is left out, in each draw for itself."""
    stacked = np.stack(np.broadcast_arrays(*parts))
    known = ~np.isnan(stacked)
    count = known.sum(axis=0)
    found: Quantity = np.where(known, stacked, 0).sum(axis=0) / np.where(count, count, np.nan)
    return found


def count_of(conditions: Sequence[NDArray[np.bool_]]) -> Quantity:
    """In how many cases something is so, in each draw for itself."""
    counted: Quantity = np.stack(np.broadcast_arrays(*conditions)).sum(axis=0).astype(np.float64)
    return counted


def estimate(quantity: Quantity) -> Estimate:
    """The mean over seeds with a 95 % interval for other seeds and other questions.

    The two sources of chance are independent, so their half-widths add as squares: Student's for the few seeds, normal for
    draws of questions. Seeds without a value are left out; a quantity without any is NaN. The ends of the interval are NaN if
    only one of several seeds has a value, or less than half of the draws.
    """
    from scipy.stats import norm, t

    asked, quantity = len(quantity), quantity[~np.isnan(quantity[:, 0])]
    values = quantity[:, 0]
    if not len(values):
        return Estimate(np.nan, np.nan, np.nan, None, 0)
    seeds, value = len(values), float(values.mean())
    deviation = float(values.std(ddof=1)) if seeds > 1 else None
    half = np.nan if seeds == 1 < asked else 0.0
    if deviation:
        half = float(t.ppf((1 + LEVEL) / 2, seeds - 1)) * deviation / seeds**0.5
    if quantity.shape[1] > 1:
        drawn = quantity[:, 1:].mean(axis=0)
        known = drawn[~np.isnan(drawn)]
        spread = float(known.std(ddof=1)) if len(known) > len(drawn) / 2 else np.nan
        half = float(np.hypot(half, norm.ppf((1 + LEVEL) / 2) * spread))
    return Estimate(value, value - half, value + half, deviation, seeds)
