"""Selective answering with a guarantee: the lowest threshold whose error rate is certified.

Learn-then-Test over 101 thresholds, by one of several procedures (`procedures`): the paper's union bound, or sequences, which
are tighter. The error rate need not fall as the threshold rises, so a sequence has several starts. The guarantee
holds for questions drawn like the calibration questions, with one response each. A response without a confidence to act on
reaches no threshold. Does not route to other models.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibsft.decisions.by_question import ByQuestion
from calibsft.decisions.needed import Needed, needed
from calibsft.decisions.procedures import UNION, Family, get_procedure
from calibsft.decisions.table import Counts, ProcedureTable
from calibsft.decisions.thresholds import (
    NOT_CONFIDENT,
    THRESHOLDS,
    accepted_from,
    as_confidence,
    hundredths,
)
from calibsft.errors import InputError
from calibsft.metrics.evaluate import Column, checked_responses, filled, id_series
from calibsft.metrics.table import IntArray

DELTA = 0.05
# Where fixed sequences start: close together at the confidences that confident models state most, and at 0 to answer
# everything. A sequence from the very top would fail at once, because too few responses reach it.
STARTS = (98, 95, 90, 85, 80, 70, 60, 50, 30, 0)
FAMILY = Family(THRESHOLDS, STARTS)
# Which questions choose a start is drawn apart from all other draws.
CHOOSING_STREAM = (2, 2)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One tested threshold: what it accepts, and whether its error rate is certified.

    `error_rate` is None if nothing is accepted. A sequence stops at a failure, so `passes` may be false although the
    bound is low enough. With the procedure `split`, the counts are of all questions, and bounds of those that test.
    """

    threshold: float
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
    threshold : a confidence; answer if the stated one is at least that. None: abstain on everything.
    questions : how many questions it was calibrated on.
    candidates : every threshold that was tested, in ascending order.
    needed : what would be needed, if there is no threshold.
    """

    risk: float
    delta: float
    procedure: str
    threshold: float | None
    questions: int
    candidates: tuple[Candidate, ...]
    needed: Needed | None

    @property
    def chosen(self) -> Candidate | None:
        """The candidate of the threshold."""
        return next((one for one in self.candidates if one.threshold == self.threshold), None)

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
    procedure : one of `PROCEDURES`; all have the same guarantee, and "recycled" or "split" mostly certify more.
    per_question : which of several responses to a question counts: the "first", or a "random" one, drawn with `seed`.

    Raises
    ------
    InputError : values out of range, or several responses to one question.
    """
    require_shares(risk=risk, delta=delta)
    rows = response_rows(confidence, correct, question_id)
    responses = ByQuestion.of(rows, per_question, question_id).one_each(seed)
    table = risk_table(responses, delta, procedure, seed)
    lowest, questions = table.lowest(risk), len(responses)
    candidates = tuple(
        Candidate(threshold / 100, n, k, k / n if n else None, bound, passes)
        for threshold, (n, k, bound, passes) in enumerate(
            table.rows(risk, table.counts.n, table.counts.events)
        )
    )
    missing = needed(table, risk, table.counts.n, questions)
    return Certificate(risk, delta, procedure, as_confidence(lowest), questions, candidates, missing)


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


def risk_table(
    responses: pl.DataFrame, delta: float, procedure: str = UNION, seed: int = 0
) -> ProcedureTable:
    """How many responses every threshold accepts and how many of them are wrong, for any risk; from `response_rows`."""
    reached, correct = (responses[name].to_numpy() for name in ("reached", "correct"))
    return counted_risks(reached, correct, delta, procedure, seed)


def counted_risks(
    reached: IntArray, correct: NDArray[np.bool_], delta: float, procedure: str = UNION, seed: int = 0
) -> ProcedureTable:
    """The same from arrays: the `hundredths` that responses reach, and whether they are right."""
    tests = get_procedure(procedure)
    everything = _counts(reached, correct)
    if not tests.choosing:
        return ProcedureTable(everything, FAMILY, tests, delta, everything)
    order = np.random.default_rng([seed, *CHOOSING_STREAM]).permutation(len(reached))
    first = int(len(order) * tests.choosing)
    choosing, testing = (_counts(reached[part], correct[part]) for part in (order[:first], order[first:]))
    return ProcedureTable(everything, FAMILY, tests, delta, testing, choosing)


def _counts(reached: IntArray, correct: NDArray[np.bool_]) -> Counts:
    return Counts(accepted_from(reached), accepted_from(reached[~correct]))
