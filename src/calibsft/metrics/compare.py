"""Intervals of scores, and paired differences between two sets of responses to the same questions.

Both draw whole questions (`bootstrap`). A difference is paired: both systems are scored on the same draws of the
questions that both answered, by dataset. Does not read files and does not compute any metric itself.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from calibsft.errors import InputError
from calibsft.metrics.bootstrap import CAP_BRIER, LEVEL, REPLICATES, Cells, interval, resample
from calibsft.metrics.evaluate import evaluate
from calibsft.metrics.table import FloatArray

COMPARED = (
    "pass@1",
    "auroc",
    "brier",
    "ece",
    "pce",
    CAP_BRIER,
    "e_aurc",
    "rce",
    "rce_tie",
    "effective_support",
)
ALL = "overall"
Draws = dict[str, FloatArray]


def cells_of(rows: pl.DataFrame, questions: pl.Series) -> Cells:
    """The counts of `rows` by the questions in `questions`, which holds every one of theirs once."""
    numbers = pl.DataFrame({"question_id": questions, "number": np.arange(len(questions))})
    numbered = rows.join(numbers, on="question_id", how="left", maintain_order="left")
    return Cells.from_rows(
        numbered["confidence"].fill_null(0).cast(pl.Float64).to_numpy(),
        numbered["correct"].cast(pl.Boolean).to_numpy(),
        numbered["number"].to_numpy(),
        len(questions),
    )


def draws_of(rows: pl.DataFrame, replicates: int = REPLICATES, seed: int = 0) -> Draws:
    """Every compared metric on draws of the questions of `rows`."""
    questions = rows["question_id"].unique().sort()
    return resample(cells_of(rows, questions), COMPARED, replicates, seed)


def mean_draws(parts: Mapping[str, Draws]) -> Draws:
    """Draws of the plain mean over datasets, each of which is drawn by itself."""
    return {name: _mean_of_known([draws[name] for draws in parts.values()]) for name in COMPARED}


def _mean_of_known(draws: Sequence[FloatArray]) -> FloatArray:
    """Draw by draw the mean of the datasets that have a value, NaN where none has."""
    stacked = np.stack(draws)
    known = (~np.isnan(stacked)).sum(axis=0)
    total = np.nansum(stacked, axis=0)
    means: FloatArray = np.divide(total, known, out=np.full(len(total), np.nan), where=known > 0)
    return means


def differences(
    ours: pl.DataFrame,
    baseline: pl.DataFrame,
    names: Sequence[str] = COMPARED,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> dict[str, Any]:
    """Scores of `ours` less those of `baseline`, with intervals, overall and by dataset.

    Parameters
    ----------
    ours, baseline
        Columns `question_id`, `confidence` (null = could not be read, which counts as 0), `correct`, and
        optionally `dataset`.
    names
        The metrics to compare.

    Returns
    -------
    `overall` and `datasets`: per metric `difference`, `low`, `high` (95 %); None where a metric has no value.
    `questions`: how many both answered; `left_out`: how many only one of them did.
    """
    ours, baseline = _keyed(ours), _keyed(baseline)
    common = (
        ours.select("dataset", "question_id")
        .unique()
        .join(baseline.select("dataset", "question_id").unique(), on=["dataset", "question_id"])
    )
    if common.is_empty():
        raise InputError("the two files have no question in common; compare responses to the same questions")
    everything = pl.concat([ours, baseline]).select("dataset", "question_id").n_unique()
    first, second = (
        rows.join(common, on=["dataset", "question_id"], how="semi") for rows in (ours, baseline)
    )
    parts = {
        name: (first.filter(pl.col("dataset") == name), second.filter(pl.col("dataset") == name))
        for name in common["dataset"].unique().sort()
        if name
    }
    return {
        ALL: _difference(_flat(first), _flat(second), names, replicates, seed),
        "datasets": {name: _difference(*pair, names, replicates, seed) for name, pair in parts.items()},
        "questions": common.height,
        "left_out": everything - common.height,
        "level": LEVEL,
    }


def _keyed(rows: pl.DataFrame) -> pl.DataFrame:
    if "dataset" not in rows.columns:
        rows = rows.with_columns(dataset=pl.lit(""))
    return rows.select("dataset", "question_id", pl.col("confidence").cast(pl.Float64), "correct")


def _flat(rows: pl.DataFrame) -> pl.DataFrame:
    # The same id in two datasets is two questions.
    return rows.with_columns(question_id=pl.struct("dataset", "question_id"))


def _difference(
    ours: pl.DataFrame, baseline: pl.DataFrame, names: Sequence[str], replicates: int, seed: int
) -> dict[str, Any]:
    questions = ours["question_id"].unique().sort()
    draws = [resample(cells_of(rows, questions), names, replicates, seed) for rows in (ours, baseline)]
    scores = [
        evaluate(rows["confidence"].fill_null(0), rows["correct"], rows["question_id"])
        for rows in (ours, baseline)
    ]
    found: dict[str, Any] = {}
    for name in names:
        ends = interval(draws[0][name] - draws[1][name])
        values = scores[0][name], scores[1][name]
        if ends is None or None in values:
            found[name] = None
        else:
            found[name] = {"difference": values[0] - values[1], "low": ends[0], "high": ends[1]}
    return found
