"""Is a calibration error more than chance: a test, and the ECE that chance alone would show.

The hypothesis: of the responses that state c, the share c is right. Outcomes are drawn as it says
(`calibrated_outcomes`), and the responses are compared with the draws. Responses to one question
err together, in a way that the hypothesis says nothing about; so the check takes one response to
each question, at random, and is exact for any dependence among the others. It is a check of a
hypothesis and not a metric: no model is better for a larger p.

The test asks how much likelier the outcomes are under recalibrated confidences than under the
stated ones (a likelihood ratio). Unlike ECE, this has no bins in which errors cancel, and an error
of 0.05 weighs more at 0.95 than at 0.5, as it should: models state high confidences, and there ECE
and the Brier score notice little. It notices little of errors that turn the order of confidences
round, which AUROC shows.
"""

import numpy as np
import polars as pl

from calibsft.errors import InputError
from calibsft.files.cells import decimals
from calibsft.metrics.calibrated_outcomes import DRAWS, calibrated_draws
from calibsft.metrics.calibration import expected_calibration_error
from calibsft.metrics.evaluate import Column, checked_responses, filled, id_series
from calibsft.metrics.recalibration import recalibrated
from calibsft.metrics.result import CalibrationCheck
from calibsft.metrics.table import ConfidenceTable, IntArray

NOISE_LEVEL = 0.95
# Two decimals cannot say more: one error among many responses at 1.00 does not refute a model.
SUREST = 0.995
# Draws as unlikely as the responses count, whatever the last digits of the sums.
ROUNDING = 1e-9
# The choice of responses has a stream of its own: it must not depend on the draws of its seed.
CHOICE = 1


def calibration_check(
    confidence: Column,
    correct: Column,
    question_id: Column | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> CalibrationCheck:
    """Whether the confidences are calibrated, as far as one response to each question can tell.

    Parameters
    ----------
    confidence : stated confidences in [0, 1], one per response; None (null) if unreadable. Those
        are left out.
    correct : whether each response was right: booleans, or 0 and 1.
    question_id : the question of each response. Without it every response counts as one to a
        question of its own; if several belong to one question, the p-value is then too small.
    draws : how many samples of calibrated outcomes; p is at least 1 / (draws + 1).
    seed : of the response to each question, and of the draws.

    Raises
    ------
    InputError : no readable confidence, unequal lengths, a value out of range, less than one draw,
        or a negative seed.
    """
    if draws < 1:
        raise InputError(f"draws is {draws}; a check compares with one draw or more")
    if seed < 0:
        raise InputError(f"seed is {seed}; give 0 or a larger number")
    given, readable = filled(confidence)
    values, right = checked_responses(given, correct, question_id)
    if not readable.any():
        raise InputError("no response states a readable confidence, so there is nothing to check")
    rows = pl.DataFrame({"confidence": decimals(values), "correct": right.astype(bool)})
    if question_id is not None:
        rows = rows.with_columns(question_id=id_series(question_id))
    chosen = one_response_each(rows.filter(pl.Series(readable)), seed)
    table = ConfidenceTable.from_rows(chosen["confidence"].to_numpy(), chosen["correct"].to_numpy())
    return check_table(table, draws, seed)


def one_response_each(rows: pl.DataFrame, seed: int = 0) -> pl.DataFrame:
    """One of the `rows` of each question, at random; all rows if they have no `question_id`.

    The same id in two datasets is two questions. Depends on what the rows hold, and not on their
    order.
    """
    if "question_id" not in rows.columns:
        return rows
    keys = [name for name in ("dataset", "question_id") if name in rows.columns]
    ordered = rows.sort(*keys, "confidence", "correct")
    questions = ordered.group_by(keys, maintain_order=True).len()
    sizes: IntArray = questions["len"].to_numpy().astype(np.int64)
    chosen: IntArray = np.random.default_rng([seed, CHOICE]).integers(sizes)
    return ordered[np.cumsum(sizes) - sizes + chosen]


def check_table(table: ConfidenceTable, draws: int = DRAWS, seed: int = 0) -> CalibrationCheck:
    """The check of counted responses to different questions."""
    drawn = [
        (expected_calibration_error(one), likelihood_ratio(one))
        for one in calibrated_draws(table, draws, seed)
    ]
    noise, ratios = np.array(drawn).T
    as_unlikely = int((ratios >= likelihood_ratio(table) - ROUNDING).sum())
    return {
        "n": table.responses,
        "ece": expected_calibration_error(table),
        "noise_ece": float(noise.mean()),
        "noise_ece_95": float(np.quantile(noise, NOISE_LEVEL, method="higher")),
        "p_value": (1 + as_unlikely) / (1 + draws),
        "draws": draws,
    }


def likelihood_ratio(table: ConfidenceTable) -> float:
    """Log-likelihood of the outcomes under recalibrated confidences less that under stated ones."""
    from scipy.special import xlogy

    stated, better = np.clip(table.values, 1 - SUREST, SUREST), recalibrated(table)
    gained = xlogy(table.k, better) + xlogy(table.wrong, 1 - better)
    return float((gained - table.k * np.log(stated) - table.wrong * np.log(1 - stated)).sum())
