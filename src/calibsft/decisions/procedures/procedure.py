"""What a procedure is: a way to test many candidate thresholds that keeps one guarantee for all of them.

A procedure sees one p-value per threshold: how likely so few bad outcomes would be if their rate were just above the budget.
It says at which level each threshold is tested, and which ones are certified. Does not count or bound anything.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from calibsft.metrics.table import FloatArray

BoolArray: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Family:
    """The thresholds that are tested together, in ascending order.

    Attributes
    ----------
    candidates : how many decisions there are to choose from; a union bound divides delta by it.
    starts : where sequences begin, from the highest down. Fixed before any data was seen, or chosen on other data.
    """

    candidates: int
    starts: tuple[int, ...]

    def starting_at(self, start: int) -> "Family":
        """The same thresholds with one sequence."""
        return replace(self, starts=(start,))


Tested: TypeAlias = tuple[FloatArray, BoolArray]
Test: TypeAlias = Callable[[FloatArray, float, Family], Tested]


@dataclass(frozen=True, slots=True)
class Procedure:
    """One way to test.

    Attributes
    ----------
    description : one sentence for lists and help.
    test : from p-values, delta and the family to the level of every threshold and whether it is certified.
    choosing : the share of the questions that chooses where to start; the others test.
    """

    name: str
    description: str
    test: Test
    choosing: float = 0.0


def walk(passes: BoolArray, start: int, stop: int = -1) -> int:
    """The first threshold that fails on the way down from `start`; `stop` if none does before it."""
    failed = np.flatnonzero(~passes[start:stop:-1] if stop >= 0 else ~passes[start::-1])
    return start - int(failed[0]) if len(failed) else stop
