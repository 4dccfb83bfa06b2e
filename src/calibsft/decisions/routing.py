"""Routing with a guarantee: the local model keeps a question if that provably costs little accuracy.

A question is kept if the local confidence reaches the threshold, else deferred to a stronger model. A loss is the event
"kept, local wrong, strong right", counted over all questions. Its rate is at least the accuracy that routing costs compared
with deferring everything. It can only fall as the threshold rises, so a fixed sequence from the top needs no correction.
Deferring everything loses nothing and is always allowed. Does not call any model.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibsft.decisions import procedures
from calibsft.decisions.bounds import error_rate_upper_bound
from calibsft.decisions.by_question import ByQuestion
from calibsft.decisions.procedures import UNION, ThresholdTable
from calibsft.decisions.selective import (
    DELTA,
    LAST_THRESHOLD,
    THRESHOLDS,
    accepted_from,
    checked_reached,
    require_shares,
)
from calibsft.errors import InputError
from calibsft.metrics.evaluate import Column, id_series
from calibsft.metrics.table import FloatArray, IntArray

# The thresholds, and to defer everything.
CANDIDATES = THRESHOLDS + 1


@dataclass(frozen=True, slots=True)
class RoutingCandidate:
    """One tested threshold, in hundredths: questions kept, losses (`events`) among them, and whether it is certified."""

    threshold: int
    kept: int
    events: int
    event_rate: float
    bound: float
    passes: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a threshold does to some questions; all values but `net_loss` are shares in [0, 1].

    Attributes
    ----------
    deferred : questions that go to the strong model.
    accuracy : of the answers of both models together.
    gross_loss : kept questions that only the strong model gets right.
    net_loss : accuracy of the strong model alone minus `accuracy`; negative if routing gains.
    tokens_saved : share of the strong model's tokens that are not spent; None if they are not known.
    """

    deferred: float
    accuracy: float
    gross_loss: float
    net_loss: float
    tokens_saved: float | None


@dataclass(frozen=True, slots=True)
class Route:
    """The threshold from which the local model keeps a question, and its tests.

    Attributes
    ----------
    epsilon : the accuracy that may be lost.
    threshold : in hundredths; keep a question if the confidence is at least that. None: defer everything.
    outcome : what the threshold does to the calibration questions.
    candidates : every threshold that was tested, in ascending order.
    """

    epsilon: float
    delta: float
    procedure: str
    threshold: int | None
    questions: int
    outcome: Outcome
    candidates: tuple[RoutingCandidate, ...]


def route(
    confidence: Column,
    local_correct: Column,
    strong_correct: Column,
    question_id: Column,
    epsilon: float,
    delta: float = DELTA,
    procedure: str = UNION,
    strong_tokens: Column | None = None,
    per_question: str | None = None,
    seed: int = 0,
) -> Route:
    """The lowest threshold that loses at most `epsilon` of accuracy with probability at least 1 − `delta`.

    Parameters
    ----------
    confidence : the local model's, in [0, 1]; a question without a readable one, None, is always deferred.
    local_correct, strong_correct : whether each model is right on the question.
    question_id : repeated questions are refused without `per_question`.
    epsilon : the accuracy that may be lost compared with deferring everything, in (0, 1).
    procedure : "union", or "fixed-sequence", which keeps more with the same guarantee.
    strong_tokens : tokens that the strong model takes for each question.
    per_question : which of several rows of a question counts: the "first", or a "random" one, drawn with `seed`.
    """
    require_shares(epsilon=epsilon, delta=delta)
    rows = routing_rows(confidence, local_correct, strong_correct, question_id, strong_tokens)
    questions = Questions.of(ByQuestion.of(rows, per_question, question_id).one_each(seed))
    table = RoutingTable.count(questions, delta, procedure)
    lowest = table.lowest(epsilon)
    outcome = questions.outcome(lowest)
    return Route(epsilon, delta, procedure, lowest, table.questions, outcome, table.candidates(epsilon))


def routing_rows(
    confidence: Column,
    local_correct: Column,
    strong_correct: Column,
    question_id: Column,
    strong_tokens: Column | None,
) -> pl.DataFrame:
    """Checked rows: question, the threshold that the local confidence reaches, and whether each model is right."""
    reached, local = checked_reached(confidence, local_correct, question_id)
    _, strong = checked_reached(confidence, strong_correct, question_id)
    columns = {"question": id_series(question_id), "reached": reached, "local": local, "strong": strong}
    if strong_tokens is not None:
        columns["tokens"] = spent = np.asarray(strong_tokens, dtype=np.float64)
        if spent.shape != reached.shape or not (spent >= 0).all():
            raise InputError(
                "strong_tokens must be one number per question, none of them negative; fix that column"
            )
    return pl.DataFrame(columns)


@dataclass(frozen=True, slots=True, eq=False)
class Questions:
    """Questions, with whether each model is right; `reached` is the local confidence in hundredths."""

    reached: IntArray
    local: NDArray[np.bool_]
    strong: NDArray[np.bool_]
    tokens: FloatArray | None

    @classmethod
    def of(cls, rows: pl.DataFrame) -> "Questions":
        """From `routing_rows`."""
        reached, local, strong = (rows[name].to_numpy() for name in ("reached", "local", "strong"))
        return cls(reached, local, strong, rows["tokens"].to_numpy() if "tokens" in rows.columns else None)

    def outcome(self, threshold: int | None) -> Outcome:
        """The outcome of a threshold; None defers everything."""
        kept = self.reached >= (LAST_THRESHOLD + 1 if threshold is None else threshold)
        accuracy = float(np.where(kept, self.local, self.strong).mean())
        return Outcome(
            deferred=float((~kept).mean()),
            accuracy=accuracy,
            gross_loss=float((kept & ~self.local & self.strong).mean()),
            net_loss=float(self.strong.mean()) - accuracy,
            tokens_saved=None if self.tokens is None else _share(self.tokens[kept].sum(), self.tokens.sum()),
        )


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole else 0.0


@dataclass(frozen=True, slots=True, eq=False)
class RoutingTable(ThresholdTable):
    """How many questions every threshold keeps, and how many of them are losses, for any epsilon."""

    starts = (LAST_THRESHOLD,)
    questions: int
    kept: IntArray
    events: IntArray

    @classmethod
    def count(cls, questions: Questions, delta: float, procedure: str = UNION) -> "RoutingTable":
        """Bound the rate of losses of every threshold."""
        lost = ~questions.local & questions.strong
        kept, events = accepted_from(questions.reached), accepted_from(questions.reached[lost])
        tested_at = procedures.level(procedure, delta, CANDIDATES, cls.starts)
        count = len(questions.reached)
        return cls(error_rate_upper_bound(events, count, tested_at), procedure, count, kept, events)

    def candidates(self, epsilon: float) -> tuple[RoutingCandidate, ...]:
        return tuple(
            RoutingCandidate(threshold, kept, events, events / self.questions, bound, passes)
            for threshold, kept, events, bound, passes in self.tested(epsilon, self.kept, self.events)
        )
