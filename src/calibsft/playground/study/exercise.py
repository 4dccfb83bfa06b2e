"""What every kind of exercise shares: the exercise itself, and how its parts are picked.

Parts - numbers, letters, names - are ranked. Pre-training picks them by a Zipf law, questions pick them uniformly within
a band of ranks, so difficulty comes from what was seen rarely. The mean rank of what was picked is the exercise's rarity,
which anyone can see in its text. Does not know tokens, models or confidences.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import Generic, TypeVar

Part = TypeVar("Part")


@dataclass(frozen=True, slots=True)
class Exercise:
    """One exercise: its text, the work that leads to the answer, and the answer."""

    text: str
    work: str
    answer: str


class Ranked(Generic[Part]):
    """Parts from the most common to the rarest; part number r has the weight r ** -exponent."""

    def __init__(self, parts: Sequence[Part], exponent: float) -> None:
        self.parts = tuple(parts)
        self.cumulative = tuple(accumulate(rank**-exponent for rank in range(1, len(self.parts) + 1)))


class Picker:
    """Picks ranked parts, and remembers how rare they were.

    Attributes
    ----------
    band
        The part of the ranks to pick from uniformly, such as (0, 0.5) for the more common half; None follows the Zipf law.
    """

    def __init__(self, random: Random, band: tuple[float, float] | None = None) -> None:
        self.random = random
        self.band = band
        self._ranks: list[float] = []

    def pick(self, ranked: Ranked[Part]) -> Part:
        size = len(ranked.parts)
        if self.band is None:
            index = self.random.choices(range(size), cum_weights=ranked.cumulative)[0]
        else:
            low, high = self.band
            index = self.random.randrange(int(low * size), int(high * size))
        self._ranks.append(index / size)
        return ranked.parts[index]

    @property
    def rarity(self) -> float:
        """The mean rank of what was picked, from 0 for the most common to 1 for the rarest."""
        return sum(self._ranks) / len(self._ranks)


Draw = Callable[[Picker], Exercise]

# Small numbers are common and large ones rare, as in most text.
NUMBERS = Ranked(range(10, 100), 0.9)
DIGITS = Ranked(range(2, 10), 0.7)
