"""Decisions on a holdout: calibrate on one half of the questions, count on the other.

Repeated over random halves, with one response per question to calibrate and all responses to count, as in the paper. Each
calibration has only half of the data, so a threshold from all of it does a little better.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from calibsft.decisions.by_question import RANDOM, ByQuestion
from calibsft.decisions.guarantees import HIGH_PROBABILITY
from calibsft.decisions.procedures import UNION
from calibsft.decisions.routing import Outcome, Questions, routing_rows, routing_table
from calibsft.decisions.selective import DELTA, require_shares, response_rows, risk_table
from calibsft.decisions.thresholds import accepted_from
from calibsft.metrics.evaluate import Column
from calibsft.metrics.table import FloatArray

HALVES = 10


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and standard deviation over random halves."""

    mean: float
    sd: float

    @classmethod
    def of(cls, values: Iterable[float | None]) -> "Spread | None":
        """Over the halves that have a value; None if none has."""
        known = [value for value in values if value is not None and not np.isnan(value)]
        return cls(float(np.mean(known)), float(np.std(known))) if known else None


@dataclass(frozen=True, slots=True, eq=False)
class Answered:
    """Selective answering on the holdout; both arrays have the shape (halves, risks).

    Attributes
    ----------
    coverage : share of responses that are answered, in [0, 1]; 0 if nothing could be certified.
    risk : share of wrong ones among them; NaN if nothing is answered.
    """

    coverage: FloatArray
    risk: FloatArray


def answered_held_out(
    confidence: Column,
    correct: Column,
    question_id: Column,
    risks: Sequence[float],
    delta: float = DELTA,
    procedure: str = UNION,
    halves: int = HALVES,
    seed: int = 0,
    per_question: str | None = RANDOM,
) -> Answered:
    """Coverage and risk on the holdout, for every random half and every allowed risk.

    Parameters
    ----------
    confidence, correct, question_id : one entry per response; questions may have several.
    risks : largest error rates among the answers given.
    delta, procedure : as in `certify`.
    halves : how many random halves of the questions; each is drawn with `seed` and its own number.
    per_question : which response to a question calibrates: "random" or "first"; None refuses repeated questions.
    """
    for risk in risks:
        require_shares(risk=risk, delta=delta)
    rows = response_rows(confidence, correct, question_id)
    responses = ByQuestion.of(rows, per_question, question_id)
    found = np.full((2, halves, len(risks)), np.nan)
    found[0] = 0.0
    if len(responses.sizes) > 1:
        for half, (chosen, others) in enumerate(responses.halves(halves, seed)):
            table = risk_table(chosen, delta, procedure, seed)
            found[:, half] = _counted(others, [table.lowest(risk) for risk in risks])
    return Answered(*found)


def _counted(others: pl.DataFrame, thresholds: Sequence[int | None]) -> FloatArray:
    """Coverage and risk of each threshold; None answers nothing."""
    reached = others["reached"].to_numpy()
    accepted = accepted_from(reached)
    errors = accepted_from(reached[~others["correct"].to_numpy()])
    pairs = [(0, 0) if lowest is None else (accepted[lowest], errors[lowest]) for lowest in thresholds]
    return np.array([[n / len(reached) for n, _ in pairs], [k / n if n else np.nan for n, k in pairs]])


def routed_held_out(
    confidence: Column,
    local_correct: Column,
    strong_correct: Column,
    question_id: Column,
    epsilon: float,
    delta: float = DELTA,
    procedure: str = UNION,
    strong_tokens: Column | None = None,
    halves: int = HALVES,
    seed: int = 0,
    per_question: str | None = RANDOM,
    guarantee: str = HIGH_PROBABILITY,
) -> list[Outcome]:
    """The outcome of routing on the holdout, for every random half; parameters as in `route`.

    Empty for a single question.
    """
    require_shares(epsilon=epsilon, delta=delta)
    rows = routing_rows(confidence, local_correct, strong_correct, question_id, strong_tokens)
    responses = ByQuestion.of(rows, per_question, question_id)
    if len(responses.sizes) < 2:
        return []
    return [
        Questions.of(others).outcome(
            routing_table(Questions.of(chosen), delta, procedure, guarantee).lowest(epsilon)
        )
        for chosen, others in responses.halves(halves, seed)
    ]


def perfect_ranking(accuracy: float, risk: float) -> float:
    """The coverage of a model that ranks every right answer above every wrong one: min(1, accuracy / (1 − risk))."""
    return min(1.0, accuracy / (1 - risk))
