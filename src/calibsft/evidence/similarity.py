"""How similar two responses must be to count as one cluster, chosen by their answers.

Of all pairs of responses to one question, those with the same answer should be linked and the others should not. The rule
takes the similarity, in hundredths, at which the shares of linked pairs differ most; of equally good ones the highest.
Answers are compared as texts. Does not embed anything.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

HUNDREDTHS = 100


@dataclass(frozen=True, slots=True)
class Separation:
    """What a similarity links: of pairs with the same answer, and of pairs with different answers."""

    similarity: float
    same: float
    different: float
    pairs: int

    def __str__(self) -> str:
        return (
            f"similarity {self.similarity:g} links {self.same:.0%} of the pairs of responses with the same answer and"
            f" {self.different:.0%} of those with different answers"
        )


class Similarities:
    """The cosines of pairs of responses to one question, counted by hundredths, with and without the same answer."""

    def __init__(self) -> None:
        # By whether the answers are the same: pairs with a cosine of at least k hundredths, k = 0 … 100.
        self._reaching = np.zeros((2, HUNDREDTHS + 1), dtype=np.int64)
        self._pairs = np.zeros(2, dtype=np.int64)

    def add(self, vectors_N_D: NDArray[np.floating], answers: Iterable[str | None]) -> None:
        """Count the pairs of one question's responses; responses without an answer are left out."""
        texts = [None if answer is None else " ".join(answer.split()).casefold() for answer in answers]
        known = [place for place, text in enumerate(texts) if text is not None]
        upper = np.triu_indices(len(known), 1)
        cosines = (vectors_N_D[known] @ vectors_N_D[known].T)[upper]
        named = np.array([texts[place] for place in known], dtype=object)
        same = (named[:, None] == named[None, :])[upper]
        grid = np.arange(HUNDREDTHS + 1) / HUNDREDTHS
        for kind, chosen in enumerate((cosines[~same], cosines[same])):
            self._pairs[kind] += len(chosen)
            ordered = np.sort(chosen)
            self._reaching[kind] += len(chosen) - np.searchsorted(ordered, grid)

    def at(self, similarity: float) -> Separation | None:
        """What a similarity links, to a hundredth; None without pairs of both kinds."""
        return self._separation(round(similarity * HUNDREDTHS))

    def best(self) -> Separation | None:
        """The choice of the rule; None without pairs of both kinds."""
        if not self._pairs.all():
            return None
        different, same = self._reaching / self._pairs[:, None]
        gap = np.round(same - different, 12)
        return self._separation(int(np.flatnonzero(gap == gap.max())[-1]))

    def _separation(self, hundredths: int) -> Separation | None:
        if not self._pairs.all():
            return None
        different, same = self._reaching[:, hundredths] / self._pairs
        return Separation(hundredths / HUNDREDTHS, float(same), float(different), int(self._pairs.sum()))
