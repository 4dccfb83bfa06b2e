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

from calibsft.decisions import conformal
from calibsft.decisions.by_question import ByQuestion
from calibsft.decisions.conformal import ConformalTable
from calibsft.decisions.guarantees import EXPECTATION, HIGH_PROBABILITY, require_guarantee
from calibsft.decisions.needed import Needed, needed
from calibsft.decisions.procedures import FIXED_SEQUENCE, UNION, Family, get_procedure
from calibsft.decisions.selective import DELTA, checked_reached, require_shares
from calibsft.decisions.table import Counts, ProcedureTable, ThresholdTable
from calibsft.decisions.thresholds import LAST_THRESHOLD, THRESHOLDS, accepted_from, as_confidence
from calibsft.errors import InputError
from calibsft.metrics.evaluate import Column, id_series
from calibsft.metrics.table import FloatArray, IntArray

# The thresholds, and to defer everything. The loss can only fall as the threshold rises, so one sequence from the top is free.
FAMILY = Family(THRESHOLDS + 1, (LAST_THRESHOLD,))
PROCEDURES = (UNION, FIXED_SEQUENCE)


@dataclass(frozen=True, slots=True)
class RoutingCandidate:
    """One tested threshold: questions kept, losses (`events`) among them, and whether it is certified."""

    threshold: float
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
    guarantee : whether that holds with "high-probability", or in "expectation".
    delta : the probability that it does not hold; None for one in expectation.
    threshold : a confidence; keep a question if the stated one is at least that. None: defer everything.
    outcome : what the threshold does to the calibration questions.
    candidates : every threshold that was tested, in ascending order.
    needed : what would be needed, if there is no threshold.
    """

    epsilon: float
    guarantee: str
    delta: float | None
    procedure: str
    threshold: float | None
    questions: int
    outcome: Outcome
    candidates: tuple[RoutingCandidate, ...]
    needed: Needed | None


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
    guarantee: str = HIGH_PROBABILITY,
) -> Route:
    """The lowest threshold that loses at most `epsilon` of accuracy, with the guarantee asked for.

    Parameters
    ----------
    confidence : the local model's, in [0, 1]; a question without a readable one, None, is always deferred.
    local_correct, strong_correct : whether each model is right on the question.
    question_id : repeated questions are refused without `per_question`.
    epsilon : the accuracy that may be lost compared with deferring everything, in (0, 1).
    delta : the probability that the guarantee does not hold.
    procedure : "union", or "fixed-sequence", which keeps more with the same guarantee.
    strong_tokens : tokens that the strong model takes for each question.
    per_question : which of several rows of a question counts: the "first", or a "random" one, drawn with `seed`.
    guarantee : "high-probability"; or "expectation", conformal risk control, which keeps more and promises less: the loss is
        at most `epsilon` on average over calibrations. `delta` and `procedure` play no part in it.
    """
    require_shares(epsilon=epsilon, delta=delta)
    require_guarantee(guarantee)
    rows = routing_rows(confidence, local_correct, strong_correct, question_id, strong_tokens)
    questions = Questions.of(ByQuestion.of(rows, per_question, question_id).one_each(seed))
    table = routing_table(questions, delta, procedure, guarantee)
    lowest, count = table.lowest(epsilon), len(questions.reached)
    average = guarantee == EXPECTATION
    return Route(
        epsilon,
        guarantee,
        None if average else delta,
        conformal.NAME if average else procedure,
        as_confidence(lowest),
        count,
        questions.outcome(lowest),
        _candidates(table, epsilon, questions),
        needed(table, epsilon, accepted_from(questions.reached), count),
    )


def _candidates(
    table: ThresholdTable, epsilon: float, questions: "Questions"
) -> tuple[RoutingCandidate, ...]:
    counts = accepted_from(questions.reached), table.counts.events
    return tuple(
        RoutingCandidate(
            threshold / LAST_THRESHOLD, kept, events, events / len(questions.reached), bound, passes
        )
        for threshold, (kept, events, bound, passes) in enumerate(table.rows(epsilon, *counts))
    )


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


def routing_table(
    questions: Questions, delta: float, procedure: str = UNION, guarantee: str = HIGH_PROBABILITY
) -> ThresholdTable:
    """How many questions every threshold loses, for any epsilon."""
    lost = ~questions.local & questions.strong
    everything = np.full(THRESHOLDS, len(questions.reached))
    counts = Counts(everything, accepted_from(questions.reached[lost]))
    if guarantee == EXPECTATION:
        return ConformalTable(counts)
    tests = get_procedure(procedure)
    if procedure not in PROCEDURES:
        raise InputError(
            f"procedure {procedure} gains nothing for routing, whose loss can only fall as the threshold rises: fixed-sequence"
            " tests one sequence at the whole of delta; use that"
        )
    return ProcedureTable(counts, FAMILY, tests, delta, counts)
