"""How much a certificate lets through, measured: certify on one half of the questions, count on the other half.

Repeated over random halves, with one random response per question to certify and all responses to count, as in the paper.
The order of the rows does not matter.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibsft.decisions.selective import DELTA, RiskTable, accepted_from, hundredths
from calibsft.metrics.evaluate import Column, checked_responses
from calibsft.metrics.table import FloatArray, IntArray

HALVES = 10


def certified_coverage(
    confidence: Column,
    correct: Column,
    question_id: pl.Series,
    risks: Sequence[float],
    delta: float = DELTA,
    halves: int = HALVES,
    seed: int = 0,
) -> FloatArray:
    """The share of held-out responses that a certificate accepts, for every random half and every risk budget.

    Parameters
    ----------
    confidence, correct, question_id : one entry per response; questions may have several.
    risks : largest error rates among the answers given.
    delta : probability that a certificate is wrong.
    halves : how many random halves of the questions; each is drawn with `seed` and its own number.

    Returns
    -------
    Shares in [0, 1] of shape (halves, risks); 0 where nothing could be certified, also for a single question.
    """
    stated, right = checked_responses(confidence, correct, question_id)
    responses = _Responses.of(hundredths(stated), right > 0, question_id)
    if len(responses.sizes) < 2:
        return np.zeros((halves, len(risks)))
    generators = (np.random.default_rng([seed, half]) for half in range(halves))
    return np.array([_one_half(responses, risks, delta, generator) for generator in generators])


def perfect_ranking(accuracy: float, risk: float) -> float:
    """The coverage of a model that ranks every right answer above every wrong one: min(1, accuracy / (1 − risk))."""
    return min(1.0, accuracy / (1 - risk))


@dataclass(frozen=True, slots=True, eq=False)
class _Responses:
    """Responses in an order of their own: by question, and within a question by what they say.

    `question` is a number per response, `sizes` the number of responses per question.
    """

    reached: IntArray
    correct: NDArray[np.bool_]
    question: IntArray
    sizes: IntArray

    @classmethod
    def of(cls, reached: IntArray, correct: NDArray[np.bool_], question_id: pl.Series) -> "_Responses":
        rows = pl.DataFrame({"question": question_id, "reached": reached, "correct": correct})
        rows = rows.sort("question", "reached", "correct")
        question = rows["question"].rle_id().to_numpy()
        return cls(rows["reached"].to_numpy(), rows["correct"].to_numpy(), question, np.bincount(question))


def _one_half(
    responses: _Responses, risks: Sequence[float], delta: float, generator: np.random.Generator
) -> list[float]:
    sizes = responses.sizes
    chosen = generator.permutation(len(sizes))[: len(sizes) // 2]
    drawn = (np.cumsum(sizes) - sizes)[chosen] + generator.integers(sizes[chosen])
    table = RiskTable.count(responses.reached[drawn], responses.correct[drawn], delta)
    held_out = np.ones(len(sizes), dtype=bool)
    held_out[chosen] = False
    accepted = accepted_from(responses.reached[held_out[responses.question]])
    thresholds = [table.lowest(risk) for risk in risks]
    return [0.0 if lowest is None else accepted[lowest] / accepted[0] for lowest in thresholds]
