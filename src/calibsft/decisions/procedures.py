"""How to test many candidate thresholds and keep the guarantee: the two procedures.

Both bound the probability that any accepted threshold is wrong. `union`, the paper's, divides delta by the number of
candidates and tests each on its own. `fixed-sequence` walks down from starting points that were fixed before any data was
seen, each with its share of delta, and stops at the first candidate that fails. Candidates behind it are not tested, so they
cost nothing. Does not compute bounds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from calibsft.errors import unknown_name
from calibsft.metrics.table import FloatArray, IntArray

UNION, FIXED_SEQUENCE = "union", "fixed-sequence"
PROCEDURES = (UNION, FIXED_SEQUENCE)


def level(procedure: str, delta: float, candidates: int, starts: Sequence[int]) -> float:
    """The level at which a single candidate is tested."""
    if procedure not in PROCEDURES:
        unknown_name("procedure", procedure, list(PROCEDURES))
    return delta / (candidates if procedure == UNION else len(starts))


def accepted(passes: NDArray[np.bool_], procedure: str, starts: Sequence[int]) -> NDArray[np.bool_]:
    """Which candidates are accepted, given which pass their test at `level`; candidates are in ascending order."""
    if procedure == UNION:
        return passes
    found = np.zeros_like(passes)
    for start in starts:
        found[start::-1] |= np.logical_and.accumulate(passes[start::-1])
    return found


@dataclass(frozen=True, slots=True, eq=False)
class ThresholdTable:
    """The bound of every threshold, in ascending order, to compare with any budget; a fixed sequence begins at `starts`."""

    starts: ClassVar[Sequence[int]]
    bounds: FloatArray
    procedure: str

    def certified(self, budget: float) -> NDArray[np.bool_]:
        """Which thresholds are certified for the budget."""
        return accepted(self.bounds <= budget, self.procedure, self.starts)

    def lowest(self, budget: float) -> int | None:
        """The lowest certified threshold, None if there is none."""
        found = np.flatnonzero(self.certified(budget))
        return int(found[0]) if len(found) else None

    def tested(self, budget: float, *counts: IntArray) -> Iterator[tuple[Any, ...]]:
        """For every threshold its number, its counts, its bound, and whether it is certified."""
        columns = (*counts, self.bounds, self.certified(budget))
        return zip(range(len(self.bounds)), *(column.tolist() for column in columns), strict=True)
