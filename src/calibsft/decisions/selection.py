"""Conformal selection: which answers of a batch to keep, so that on average few of the kept ones are wrong.

Every answer gets a p-value against "it is wrong": the rank of its confidence among the labelled wrong answers, counted over
all labelled ones (Jin and Candès, 2023). Benjamini-Hochberg over the batch keeps the expected share of wrong answers among
the kept ones at most at the risk. That needs few labels, and promises less than a certificate: the average over
calibrations and batches, not this batch. Does not give a threshold for other batches.
"""

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibsft.decisions.by_question import ByQuestion
from calibsft.decisions.guarantees import EXPECTATION
from calibsft.decisions.selective import require_shares
from calibsft.files.cells import decimals
from calibsft.metrics.evaluate import Column, checked_responses, filled, id_series
from calibsft.metrics.table import FloatArray, IntArray

# Ranks below every confidence.
UNSURE = -1.0


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """The answers of a batch that are kept.

    Attributes
    ----------
    risk : the share of wrong answers among the kept ones, on average at most.
    guarantee : always "expectation".
    labelled, wrong : labelled answers, one per question, and how many of them are wrong.
    keep : for every answer of the batch, whether it is kept.
    p_values : for every answer; 1 for one without a confidence.
    lowest : the lowest confidence among the kept ones; None if nothing is kept. Another batch has another.
    """

    risk: float
    guarantee: str
    labelled: int
    wrong: int
    keep: NDArray[np.bool_]
    p_values: FloatArray
    lowest: float | None


def select(
    confidence: Column,
    correct: Column,
    question_id: Column,
    batch: Column,
    risk: float,
    per_question: str | None = None,
    seed: int = 0,
) -> Selection:
    """Which answers of `batch` to keep, so that on average at most a share `risk` of the kept ones is wrong.

    Parameters
    ----------
    confidence, correct, question_id : labelled answers, exchangeable with those of the batch.
    batch : the confidences of the answers to choose from, one per question; None for one that is never kept.
    risk : in (0, 1).
    per_question : which of several labelled answers to a question counts, as in `certify`.
    """
    require_shares(risk=risk)
    stated, right = ranked(confidence, correct, question_id)
    rows = pl.DataFrame({"question": id_series(question_id), "rank": stated, "correct": right})
    labelled = ByQuestion.of(rows, per_question, question_id).one_each(seed)
    wrong = np.sort(labelled.filter(~pl.col("correct"))["rank"].to_numpy())
    offered, _ = ranked(batch, np.zeros(len(batch)), None)
    no_less_sure = len(wrong) - np.searchsorted(wrong, offered, side="left")
    p_values = np.where(offered == UNSURE, 1.0, (1 + no_less_sure) / (len(labelled) + 1))
    keep = benjamini_hochberg(p_values, risk) & (offered != UNSURE)
    lowest = float(offered[keep].min()) if keep.any() else None
    return Selection(risk, EXPECTATION, len(labelled), len(wrong), keep, p_values, lowest)


def ranked(
    confidence: Column, correct: Column, question_id: Column | None
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Checked confidences, those that cannot be acted on below all others, and whether each answer is right."""
    given, readable = filled(confidence)
    stated, right = checked_responses(given, correct, question_id)
    return np.where(readable, decimals(stated), UNSURE), right > 0


def benjamini_hochberg(p_values: FloatArray, level: float) -> NDArray[np.bool_]:
    """Which hypotheses are rejected, so that on average at most a share `level` of the rejected ones is true."""
    ordered = np.sort(p_values)
    passing: IntArray = np.flatnonzero(ordered <= level * np.arange(1, len(ordered) + 1) / len(ordered))
    return p_values <= ordered[passing[-1]] if len(passing) else np.zeros(len(p_values), dtype=bool)
