"""Intervals by resampling questions: how far a figure would move with other questions of the same kind.

Responses to one question are alike, so whole questions are drawn, with all their responses. Two systems are
compared on the same draws of the questions that both answered, so what makes a question hard for both cancels out.
Works on counts per (question, confidence): a draw costs no pass over the responses.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibsft.metrics.evaluate import METRICS
from calibsft.metrics.table import ConfidenceTable, FloatArray, IntArray

REPLICATES = 1000
LEVEL = 0.95
CAP_BRIER = "cap_brier"

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Counts per question and distinct confidence: what a bootstrap needs of a set of responses.

    Attributes
    ----------
    questions : how many questions there are; they are numbered from 0.
    values : distinct confidences, ascending.
    question, value, n, k : per cell its question, the index of its value, responses, and how many were correct.
    """

    questions: int
    values: FloatArray
    question: IntArray
    value: IntArray
    n: IntArray
    k: IntArray

    @classmethod
    def from_rows(
        cls, confidence: FloatArray, correct: NDArray[np.bool_], question: IntArray, questions: int
    ) -> "Cells":
        """Count rows; `question` numbers them within 0 … questions - 1."""
        values, value = np.unique(confidence, return_inverse=True)
        keys, cell = np.unique(question * len(values) + value, return_inverse=True)
        n, k = np.bincount(cell), np.bincount(cell, weights=correct).astype(np.int64)
        return cls(questions, values, keys // len(values), keys % len(values), n, k)

    def table(self, weights: IntArray) -> ConfidenceTable:
        """The confidence table in which question q counts `weights[q]` times."""
        times = weights[self.question]
        size = len(self.values)
        n = np.bincount(self.value, weights=times * self.n, minlength=size).astype(np.int64)
        k = np.bincount(self.value, weights=times * self.k, minlength=size).astype(np.int64)
        stated = n > 0
        return ConfidenceTable(self.values[stated], n[stated], k[stated])

    def capability_gaps(self) -> FloatArray:
        """Per question the squared gap between its mean confidence and its success rate."""
        n = np.bincount(self.question, weights=self.n, minlength=self.questions)
        stated = np.bincount(
            self.question, weights=self.n * self.values[self.value], minlength=self.questions
        )
        solved = np.bincount(self.question, weights=self.k, minlength=self.questions)
        gaps: FloatArray = ((stated - solved) / np.maximum(n, 1)) ** 2
        return gaps


def resample(
    cells: Cells, names: Sequence[str], replicates: int = REPLICATES, seed: int = 0
) -> dict[str, FloatArray]:
    """Every named metric on `replicates` draws of the questions; NaN where a metric has no value.

    The draws depend on the seed and the number of questions alone: two systems that answered the same
    questions are drawn together.
    """
    rng = np.random.default_rng(seed)
    gaps = cells.capability_gaps()
    found = {name: np.full(replicates, np.nan) for name in names}
    for i in range(replicates):
        weights = np.bincount(rng.integers(cells.questions, size=cells.questions), minlength=cells.questions)
        table = cells.table(weights)
        for name in names:
            value = float(weights @ gaps) / cells.questions if name == CAP_BRIER else METRICS[name](table)
            found[name][i] = np.nan if value is None else value
    return found


def interval(draws: FloatArray, level: float = LEVEL) -> Interval | None:
    """The central interval of the draws, None where too few of them have a value to tell."""
    known = draws[~np.isnan(draws)]
    if len(known) < max(2, len(draws) // 2):
        return None
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def intervals(draws: Mapping[str, FloatArray], level: float = LEVEL) -> dict[str, Interval | None]:
    """The interval of every metric."""
    return {name: interval(values, level) for name, values in draws.items()}
