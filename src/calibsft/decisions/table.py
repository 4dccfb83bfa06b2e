"""Counts of every threshold, to be tested against any budget.

What counts as an event is the caller's: a wrong answer (`selective`), a lost question (`routing`). How thresholds are tested
is `procedures` for a guarantee with high probability, `conformal` for one in expectation.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from calibsft.decisions.bounds import error_rate_p_value, error_rate_upper_bound
from calibsft.decisions.procedures import Family, Procedure
from calibsft.metrics.table import FloatArray, IntArray

BoundsAndCertified = tuple[FloatArray, NDArray[np.bool_]]


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """For every threshold in ascending order: how many responses count, and how many of them are events."""

    n: IntArray
    events: IntArray

    def times(self, factor: float) -> "Counts":
        """The counts for `factor` times as many responses of the same kind; events are rounded up."""
        n = np.floor(self.n * factor).astype(np.int64)
        # Without the small number, 3 · 1.0 could become 4.
        events = np.ceil(self.events * factor - 1e-9).astype(np.int64)
        return Counts(n, np.minimum(n, events))


@dataclass(frozen=True, slots=True, eq=False)
class ThresholdTable(ABC):
    """The counts of every threshold. Subclasses say how thresholds are tested."""

    counts: Counts

    @abstractmethod
    def tested(self, budget: float) -> BoundsAndCertified:
        """What is compared with the budget for every threshold, and whether the threshold is certified."""

    def lowest(self, budget: float) -> int | None:
        """The lowest certified threshold, None if there is none."""
        found = np.flatnonzero(self.tested(budget)[1])
        return int(found[0]) if len(found) else None

    def rows(self, budget: float, *counts: IntArray) -> Iterator[tuple[Any, ...]]:
        """For every threshold the counts given, its bound, and whether it is certified."""
        columns = (*counts, *self.tested(budget))
        return zip(*(column.tolist() for column in columns), strict=True)

    def times(self, factor: float) -> Self:
        """The table for `factor` times as many responses of the same kind."""
        return replace(self, counts=self.counts.times(factor))


@dataclass(frozen=True, slots=True, eq=False)
class ProcedureTable(ThresholdTable):
    """Thresholds tested by a procedure: with probability 1 − delta no certified one is above the budget.

    Attributes
    ----------
    testing : the responses that test; `choosing` those that choose where a sequence starts, if the procedure wants any.
    """

    family: Family
    procedure: Procedure
    delta: float
    testing: Counts
    choosing: Counts | None = None

    def tested(self, budget: float) -> BoundsAndCertified:
        family = self.family
        if self.choosing is not None:
            family = family.starting_at(safest(self.choosing, budget))
        n, events = self.testing.n, self.testing.events
        levels, certified = self.procedure.test(error_rate_p_value(events, n, budget), self.delta, family)
        return error_rate_upper_bound(events, n, levels), certified

    def times(self, factor: float) -> Self:
        choosing = None if self.choosing is None else self.choosing.times(factor)
        return replace(
            self, counts=self.counts.times(factor), testing=self.testing.times(factor), choosing=choosing
        )


def safest(counts: Counts, budget: float) -> int:
    """The threshold whose events are the most standard deviations below the budget; the lowest of several."""
    spread = np.sqrt(np.maximum(counts.n, 1) * budget * (1 - budget))
    return int(np.argmax((counts.n * budget - counts.events) / spread))
