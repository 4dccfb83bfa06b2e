"""Selective answering with a guarantee: the lowest threshold whose error rate is certified.

Learn-then-Test over 101 thresholds, by one of two procedures (`procedures`): the paper's union bound, or a fixed sequence,
which is tighter. The error rate need not fall as the threshold rises, so the sequence has several starts. The guarantee
holds for questions drawn like the calibration questions, with one response each. A response without a confidence to act on
reaches no threshold. Does not route to other models.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibsft.decisions import procedures
from calibsft.decisions.bounds import error_rate_upper_bound
from calibsft.decisions.by_question import ByQuestion
from calibsft.decisions.procedures import UNION, ThresholdTable
from calibsft.errors import InputError
from calibsft.files.cells import decimals
from calibsft.metrics.evaluate import Column, checked_responses, filled, id_series
from calibsft.metrics.table import IntArray

LAST_THRESHOLD = 100
THRESHOLDS = LAST_THRESHOLD + 1
DELTA = 0.05
# Stands for the threshold that a response without a confidence to act on reaches.
NOT_CONFIDENT = -1
# Where fixed sequences start: close together at the confidences that confident models state most, and at 0 to answer
# everything. A sequence from the very top would fail at once, because too few responses reach it.
STARTS = (98, 95, 90, 85, 80, 70, 60, 50, 30, 0)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One tested threshold, in hundredths: what it accepts, and whether its error rate is certified.

    `error_rate` is None if nothing is accepted. A fixed sequence stops at a failure, so `passes` may be false although the
    bound is low enough.
    """

    threshold: int
    accepted: int
    errors: int
    error_rate: float | None
    bound: float
    passes: bool


@dataclass(frozen=True, slots=True)
class Certificate:
    """The threshold from which answers may be given, and its tests.

    Attributes
    ----------
    risk : the error rate that answers may have.
    delta, procedure : the probability that the certificate is wrong, and how it was tested.
    threshold : in hundredths; answer if the confidence is at least that. None: abstain on everything.
    questions : how many questions it was calibrated on.
    candidates : every threshold that was tested, in ascending order.
    """

    risk: float
    delta: float
    procedure: str
    threshold: int | None
    questions: int
    candidates: tuple[Candidate, ...]

    @property
    def chosen(self) -> Candidate | None:
        """The candidate of the threshold."""
        return None if self.threshold is None else self.candidates[self.threshold]

    @property
    def coverage(self) -> float:
        """The share of the calibration questions that are answered."""
        return self.chosen.accepted / self.questions if self.chosen else 0.0


def certify(
    confidence: Column,
    correct: Column,
    question_id: Column,
    risk: float,
    delta: float = DELTA,
    procedure: str = UNION,
    per_question: str | None = None,
    seed: int = 0,
) -> Certificate:
    """The lowest threshold whose error rate is at most `risk` with probability at least 1 − `delta`.

    Parameters
    ----------
    confidence : stated confidences in [0, 1]; None for a response without one to act on, which is never accepted.
    correct : whether each response was right.
    question_id : which question each response answers; repeated questions are refused without `per_question`.
    risk : largest error rate among the answers given, in (0, 1).
    delta : probability of being wrong, in (0, 1).
    procedure : "union", or "fixed-sequence", which certifies more with the same guarantee.
    per_question : which of several responses to a question counts: the "first", or a "random" one, drawn with `seed`.

    Raises
    ------
    InputError : values out of range, or several responses to one question.
    """
    require_shares(risk=risk, delta=delta)
    rows = response_rows(confidence, correct, question_id)
    responses = ByQuestion.of(rows, per_question, question_id).one_each(seed)
    table = RiskTable.of(responses, delta, procedure)
    return Certificate(risk, delta, procedure, table.lowest(risk), len(responses), table.candidates(risk))


def response_rows(confidence: Column, correct: Column, question_id: Column) -> pl.DataFrame:
    """Checked responses: question, the threshold that each reaches, and whether it was right."""
    reached, right = checked_reached(confidence, correct, question_id)
    return pl.DataFrame({"question": id_series(question_id), "reached": reached, "correct": right})


def require_shares(**shares: float) -> None:
    """Refuse values that are not strictly between 0 and 1."""
    for name, value in shares.items():
        if not 0 < value < 1:
            raise InputError(f"{name} is {value}; give a number between 0 and 1, such as 0.05")


def checked_reached(
    confidence: Column, correct: Column, question_id: Column
) -> tuple[IntArray, NDArray[np.bool_]]:
    """The threshold that each response reaches, and whether it was right; a value out of range is refused by its index."""
    given, readable = filled(confidence)
    stated, right = checked_responses(given, correct, question_id)
    reached = hundredths(stated)
    reached[~readable] = NOT_CONFIDENT
    return reached, right > 0


def hundredths(confidence: NDArray[np.floating]) -> IntArray:
    """The largest threshold that each confidence reaches, exactly: 0.29 is 29, and 0.2899 is 28."""
    values = decimals(confidence)
    nearest = np.rint(values * LAST_THRESHOLD)
    # 0.29 · 100 is less than 29 in floats, but 29 / 100 is the float that the text 0.29 denotes.
    return (nearest - (values < nearest / LAST_THRESHOLD)).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class RiskTable(ThresholdTable):
    """How many responses every threshold accepts and how many of them are wrong, for any risk."""

    starts = STARTS
    accepted: IntArray
    errors: IntArray

    @classmethod
    def of(cls, responses: pl.DataFrame, delta: float, procedure: str = UNION) -> "RiskTable":
        """Bound the error rate of every threshold, from `response_rows`."""
        reached, correct = (responses[name].to_numpy() for name in ("reached", "correct"))
        return cls.count(reached, correct, delta, procedure)

    @classmethod
    def count(
        cls, reached: IntArray, correct: NDArray[np.bool_], delta: float, procedure: str = UNION
    ) -> "RiskTable":
        """The same from arrays: the `hundredths` that responses reach, and whether they are right."""
        accepted, errors = accepted_from(reached), accepted_from(reached[~correct])
        tested_at = procedures.level(procedure, delta, THRESHOLDS, STARTS)
        return cls(error_rate_upper_bound(errors, accepted, tested_at), procedure, accepted, errors)

    def candidates(self, risk: float) -> tuple[Candidate, ...]:
        return tuple(
            Candidate(threshold, n, k, k / n if n else None, bound, passes)
            for threshold, n, k, bound, passes in self.tested(risk, self.accepted, self.errors)
        )


def accepted_from(reached: IntArray) -> IntArray:
    """How many responses each threshold accepts."""
    return np.bincount(reached[reached >= 0], minlength=THRESHOLDS)[::-1].cumsum()[::-1]
