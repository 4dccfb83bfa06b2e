"""How similar two responses must be to count as one cluster, chosen by their answers.

Of all pairs of responses to one question, those with the same answer should be linked and the others should not. The rule
takes the similarity, in hundredths, at which the shares of linked pairs differ most; of equally good ones the highest.
Answers are compared as texts. Does not embed anything.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

HUNDREDTHS = 100
# Responses of a question whose pairs are looked at: enough to choose by, and the pairs stay few.
MOST = 200


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
    """The cosines of pairs of responses to one question, counted by whether their answers are the same.

    `given` is a similarity of the user's, which is counted beside the hundredths.
    """

    def __init__(self, given: float | None = None) -> None:
        hundredths = [k / HUNDREDTHS for k in range(1, HUNDREDTHS + 1)]
        self._grid = np.unique([*hundredths, *([] if given is None else [given])])
        self._hundredths = np.searchsorted(self._grid, hundredths)
        # Without and with the same answer: pairs with at least each cosine of the grid, and all pairs.
        self._reaching = np.zeros((2, len(self._grid)), dtype=np.int64)
        self._pairs = np.zeros(2, dtype=np.int64)

    def add(
        self, vectors_N_D: NDArray[np.floating], texts: Sequence[int], answers: Iterable[str | None]
    ) -> None:
        """Count the pairs of one question's responses; responses without an answer are left out.

        `texts` are numbers of the responses' texts: equal texts are as similar as can be, whatever rounding makes of them.
        """
        written = [None if answer is None else " ".join(answer.split()).casefold() for answer in answers]
        known = [place for place, answer in enumerate(written) if answer is not None][:MOST]
        codes = {answer: code for code, answer in enumerate(dict.fromkeys(written))}
        answer_N = np.array([codes[written[place]] for place in known], dtype=np.int64)
        text_N = np.asarray(texts)[known]
        upper = np.triu_indices(len(known), 1)
        cosines_N_N = vectors_N_D[known] @ vectors_N_D[known].T
        cosines = np.where(text_N[:, None] == text_N, 1.0, cosines_N_N)[upper]
        same = (answer_N[:, None] == answer_N)[upper]
        for kind, chosen in enumerate((cosines[~same], cosines[same])):
            self._pairs[kind] += len(chosen)
            self._reaching[kind] += len(chosen) - np.searchsorted(np.sort(chosen), self._grid)

    def at(self, similarity: float) -> Separation | None:
        """What a similarity of the grid links; None without pairs of both kinds."""
        return self._separation(int(np.searchsorted(self._grid, similarity)))

    def best(self) -> Separation | None:
        """The choice of the rule; None if no similarity links more pairs with the same answer than others."""
        if not self._pairs.all():
            return None
        different, same = self._reaching[:, self._hundredths] / self._pairs[:, None]
        gap = np.round(same - different, 12)
        if gap.max() <= 0:
            return None
        return self._separation(int(self._hundredths[np.flatnonzero(gap == gap.max())[-1]]))

    def _separation(self, place: int) -> Separation | None:
        if not self._pairs.all():
            return None
        different, same = self._reaching[:, place] / self._pairs
        return Separation(float(self._grid[place]), float(same), float(different), int(self._pairs.sum()))
