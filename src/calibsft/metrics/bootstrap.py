"""Intervals by resampling questions: how far a figure would move with other questions of the same kind.

Responses to one question are alike, so whole questions are drawn, with all their responses. Two systems are
compared on the same draws of the questions that both answered, so the difficulty of a question cancels out. Works on
counts per (question, confidence): a draw needs no pass over the responses.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibsft.metrics.metric import Metric
from calibsft.metrics.registry import METRICS, QUESTION_METRICS, TABLE_METRICS
from calibsft.metrics.result import Interval, Intervals
from calibsft.metrics.table import ConfidenceTable, FloatArray, IntArray

REPLICATES = 1000
LEVEL = 0.95
# Questions, and draws of them, that are computed together: few enough to fit a processor's cache.
QUESTIONS_AT_ONCE = 1 << 13
DRAWS_AT_ONCE = 32
LARGEST_TABLES = 1 << 23

Draws = dict[str, FloatArray]


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Counts of responses per question and distinct confidence, which is all that a bootstrap needs.

    Attributes
    ----------
    values : distinct confidences, ascending.
    counts : a sparse matrix with one column per question. Row 2v counts its wrong responses that stated value v, row
        2v + 1 the right ones.
    """

    values: FloatArray
    counts: Any

    @classmethod
    def from_rows(
        cls, confidence: FloatArray, correct: NDArray[np.bool_], question: IntArray, questions: int
    ) -> "Cells":
        """Count rows; `question` is the number of each row's question, in 0 … questions - 1."""
        from scipy.sparse import csc_array

        values = pl.Series(confidence).unique().sort().to_numpy()
        row = np.searchsorted(values, confidence).astype(np.int32) * 2 + correct
        shape = 2 * len(values), questions
        # Floats hold these counts exactly, and a product of floats is several times faster.
        ones = np.ones(len(row))
        return cls(values, csc_array((ones, (row, question.astype(np.int32))), shape=shape))

    @property
    def questions(self) -> int:
        """How many questions there are; they are numbered from 0."""
        return int(self.counts.shape[1])

    def part(self, questions: slice) -> "Cells":
        """The counts of some of the questions."""
        return Cells(self.values, self.counts[:, questions])

    def tables(self, counted_V_B: FloatArray) -> list[ConfidenceTable]:
        """A confidence table per column of `counted_V_B`, which has the rows of `counts`."""
        counted = counted_V_B.astype(np.int64)
        wrong_V_B, right_V_B = counted[::2], counted[1::2]
        pairs = zip((wrong_V_B + right_V_B).T, right_V_B.T, strict=True)
        return [ConfidenceTable(self.values[n > 0], n[n > 0], k[n > 0]) for n, k in pairs]

    def question_figures(self, names: Sequence[str]) -> dict[str, FloatArray]:
        """For the named metrics that are means over questions: the value of every question."""
        gap = np.column_stack([self.values, self.values - 1]).ravel() @ self.counts
        gaps: FloatArray = gap / np.maximum(self.counts.sum(axis=0), 1)
        return {name: QUESTION_METRICS[name](gaps) for name in names if name in QUESTION_METRICS}

    def scores(self, names: Sequence[str]) -> dict[str, float | None]:
        """Every named metric of all questions, each counted once."""
        (table,) = self.tables(self.counts @ np.ones((self.questions, 1)))
        figures = self.question_figures(names)
        return {
            name: float(figures[name].mean()) if name in figures else TABLE_METRICS[name](table)
            for name in names
        }


def resample(
    systems: Sequence[Cells],
    names: Sequence[str],
    replicates: int = REPLICATES,
    seed: int = 0,
    advance: Callable[[int], object] = lambda draws: None,
) -> list[Draws]:
    """Every named metric of each system on `replicates` draws of the questions; NaN where a metric has no value.

    The systems answered the same questions and share the draws, which depend only on the seed and the number of questions.
    `advance` is called with the number of draws just made.
    """
    draw = Drawing(systems[0].questions, seed)
    largest = max(cells.counts.shape[0] for cells in systems)
    at_once = max(1, min(DRAWS_AT_ONCE, LARGEST_TABLES // largest))
    figures = [cells.question_figures(names) for cells in systems]
    found = [{name: np.full(replicates, np.nan) for name in names} for _ in systems]
    for start in range(0, replicates, at_once):
        draws = slice(start, min(start + at_once, replicates))
        count = draws.stop - start
        sums = draw.sums(systems, figures, count)
        for cells, drawn, (counted_V_B, means) in zip(systems, found, sums, strict=True):
            tables = cells.tables(counted_V_B)
            for name in names:
                # An array of floats takes None as NaN.
                drawn[name][draws] = (
                    means[name] if name in means else [TABLE_METRICS[name](t) for t in tables]
                )
        advance(count)
    return found


class Drawing:
    """Draws as many questions as there are, with replacement, one span of questions at a time.

    First it draws how many fall into each span, then which. The distribution is the same, and memory is read in order.
    """

    def __init__(self, questions: int, seed: int) -> None:
        self.questions = questions
        starts = range(0, questions, QUESTIONS_AT_ONCE)
        self._spans = [slice(start, min(start + QUESTIONS_AT_ONCE, questions)) for start in starts]
        self._sizes = np.random.default_rng(seed)
        # Every span has its own stream, so the draws do not depend on how many are made at once.
        self._streams = [np.random.default_rng([seed, number]) for number in range(len(self._spans))]

    def sums(
        self, systems: Sequence[Cells], figures: Sequence[Mapping[str, FloatArray]], draws: int
    ) -> list[tuple[FloatArray, Draws]]:
        """Per system the counts of the next `draws` draws, and the means of its questions' `figures`."""
        found = [
            (np.zeros((cells.counts.shape[0], draws)), {name: np.zeros(draws) for name in each})
            for cells, each in zip(systems, figures, strict=True)
        ]
        shares = [(span.stop - span.start) / self.questions for span in self._spans]
        sizes_B_S = self._sizes.multinomial(self.questions, shares, size=draws)
        for span, stream, sizes_B in zip(self._spans, self._streams, sizes_B_S.T, strict=True):
            weights_Q_B = _weights(stream, span.stop - span.start, sizes_B)
            for cells, each, (counted_V_B, means) in zip(systems, figures, found, strict=True):
                counted_V_B += cells.part(span).counts @ weights_Q_B
                for name, figure_Q in each.items():
                    means[name] += figure_Q[span] @ weights_Q_B / self.questions
        return found


def _weights(stream: np.random.Generator, questions: int, sizes_B: IntArray) -> FloatArray:
    """How often each question occurs in draws of the given sizes, with replacement."""
    drawn = [np.bincount(stream.integers(questions, size=size), minlength=questions) for size in sizes_B]
    return np.stack(drawn, axis=1).astype(np.float64)


def interval(draws: FloatArray, estimate: float | None) -> Interval | None:
    """A symmetric interval around the estimate that holds the share `LEVEL` of the draws.

    None if fewer than half of the draws have a value. Draws of a biased figure lie on one side of the estimate and the
    truth on the other, so an interval between quantiles of the draws would miss both.
    """
    known = draws[~np.isnan(draws)]
    if estimate is None or len(known) < max(2, len(draws) // 2):
        return None
    reach = float(np.quantile(np.abs(known - estimate), LEVEL))
    return estimate - reach, estimate + reach


def intervals(draws: Draws, estimates: Mapping[str, float | None]) -> Intervals:
    """The interval of every metric, within the values that it can take; None for metrics without an interval."""
    return {name: _within(METRICS[name], values, estimates[name]) for name, values in draws.items()}


def _within(metric: Metric, draws: FloatArray, estimate: float | None) -> Interval | None:
    if metric.interval is None or estimate is None:
        return None
    if metric.interval == "log":
        ends = interval(np.log(draws), math.log(estimate))
        ends = ends and (math.exp(ends[0]), math.exp(ends[1]))
    else:
        ends = interval(draws, estimate)
    lowest, highest = metric.bounds
    return ends and (max(ends[0], min(lowest, estimate)), min(ends[1], max(highest, estimate)))
