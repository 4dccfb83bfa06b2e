"""Intervals of scores, and paired differences between two sets of responses to the same questions.

Both draw whole questions (`bootstrap`). A difference is paired: both systems are scored on the same draws of the
questions that both answered, dataset by dataset. Does not read files or compute metrics.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO

import numpy as np
import polars as pl

from calibsft.errors import InputError
from calibsft.files.cells import decimals
from calibsft.metrics.bootstrap import LEVEL, REPLICATES, Cells, Draws, interval, intervals, resample
from calibsft.metrics.counts import compact
from calibsft.metrics.registry import COMPARED, METRICS
from calibsft.metrics.result import MEAN_OVER_DATASETS, Difference, Differences, Intervals
from calibsft.metrics.table import FloatArray
from calibsft.progress import Progress

# Names have 32-bit codes. Looking up one number for the pair is much faster than looking up the pair.
KEY = pl.col("dataset").to_physical().cast(pl.UInt64) * 2**32 + pl.col("question_id").to_physical()


@dataclass(frozen=True, slots=True)
class ScoredIntervals:
    """Intervals of all rows, of every dataset, and of the means over the datasets of every split."""

    overall: Intervals
    datasets: dict[str, Intervals]
    splits: dict[str, Intervals]


def scored_intervals(
    rows: pl.DataFrame,
    members: Mapping[str, Sequence[str]],
    metrics: Sequence[str] = COMPARED,
    progress: bool = False,
) -> ScoredIntervals:
    """Intervals of `metrics` for all rows, every dataset and every split; `members` are the datasets of each split."""
    keyed = _keyed(rows)
    questions = _questions(keyed)
    cells = cells_of(keyed, questions)
    spans = _spans(questions) if "dataset" in rows.columns else {}
    parts = {name: cells.part(span) for name, span in spans.items()}
    with _progress("intervals", 1 + len(parts), progress) as shown:
        (overall,) = resample([cells], metrics, advance=shown.advance)
        draws = {name: resample([part], metrics, advance=shown.advance)[0] for name, part in parts.items()}
    scores = {name: part.scores(metrics) for name, part in parts.items()}
    means = {
        split: intervals(_mean_draws([draws[n] for n in names]), _mean_scores([scores[n] for n in names]))
        for split, names in members.items()
    }
    each = {name: intervals(drawn, scores[name]) for name, drawn in draws.items()}
    return ScoredIntervals(intervals(overall, cells.scores(metrics)), each, means)


def cells_of(rows: pl.DataFrame, questions: pl.DataFrame) -> Cells:
    """The counts of those `rows` that answer one of `questions`."""
    numbers = questions.lazy().select("key", number=pl.int_range(pl.len(), dtype=pl.Int32))
    numbered = rows.lazy().join(numbers, on="key", maintain_order="left")
    columns = numbered.select("confidence", "correct", "number").collect()
    confidence, correct, number = (column.to_numpy() for column in columns)
    return Cells.from_rows(confidence, correct, number, questions.height)


def _questions(rows: pl.DataFrame) -> pl.DataFrame:
    """Every question once, sorted by name, so that draws do not depend on the order of the rows."""
    return (
        rows.filter(pl.col("key").is_first_distinct()).sort("dataset", "question_id").select("key", "dataset")
    )


def _spans(questions: pl.DataFrame) -> dict[str, slice]:
    """The span of each dataset in the sorted questions."""
    sizes = questions["dataset"].cast(pl.String).rle().struct.unnest()
    ends = sizes["len"].cum_sum()
    spans = zip(sizes["value"], ends - sizes["len"], ends, strict=True)
    return {name: slice(start, end) for name, start, end in spans}


def _mean_draws(parts: Sequence[Draws]) -> Draws:
    """Draws of the plain mean over datasets; each dataset is drawn separately."""
    return {name: _mean_of_known([draws[name] for draws in parts]) for name in parts[0]}


def _mean_of_known(draws: Sequence[FloatArray]) -> FloatArray:
    """For each draw the mean over the datasets that have a value; NaN if none has."""
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
    progress: bool = False,
) -> Differences:
    """Scores of `ours` minus those of `baseline`, with intervals, overall, by dataset and by split.

    Parameters
    ----------
    ours, baseline
        Columns `question_id`, `confidence` (null = could not be read, which counts as 0), `correct`, and
        optionally `dataset` and `split`.
    names
        The metrics to compare.
    progress
        Show progress on standard error.

    Returns
    -------
    `overall`, `datasets` and `splits` (plain means over datasets): per metric `difference`, `low`, `high` (95 %); None
    where a metric has no value.
    `questions`: how many both answered; `left_out`: how many only one of them answered.
    """
    sides = _keyed(ours), _keyed(baseline)
    asked = [_questions(rows) for rows in sides]
    common = asked[0].join(asked[1], on="key", how="semi", maintain_order="left")
    if common.is_empty():
        raise InputError("the two files have no question in common; compare responses to the same questions")
    pair = [cells_of(rows, common) for rows in sides]
    spans = {name: span for name, span in _spans(common).items() if name}
    with _progress("differences", 1 + len(spans), progress, replicates) as shown:
        overall = _compared(pair, names, replicates, seed, shown)
        parts = {
            name: _compared([cells.part(span) for cells in pair], names, replicates, seed, shown)
            for name, span in spans.items()
        }
    means = {split: _mean([parts[name] for name in part]) for split, part in _members(ours, parts).items()}
    return {
        "overall": _differences(overall),
        "datasets": {name: _differences(part) for name, part in parts.items()},
        "splits": {split: _differences(part) for split, part in means.items()},
        "questions": common.height,
        "left_out": sum(questions.height for questions in asked) - 2 * common.height,
        "level": LEVEL,
    }


def _keyed(rows: pl.DataFrame) -> pl.DataFrame:
    """`rows` with a number per question; the same id in two datasets is two questions."""
    if "dataset" not in rows.columns:
        rows = rows.with_columns(dataset=pl.lit(""))
    confidence = (
        rows["confidence"] if rows["confidence"].dtype.is_float() else rows["confidence"].cast(pl.Float64)
    )
    stated = pl.Series(decimals(confidence.fill_null(0).to_numpy()))
    right = rows["correct"].cast(pl.Boolean)
    return compact(rows).with_columns(confidence=stated, correct=right, key=KEY)


def _members(rows: pl.DataFrame, datasets: Iterable[str]) -> dict[str, list[str]]:
    """The `datasets` of each split of `rows`, and all of them together; splits without any are left out."""
    found = {MEAN_OVER_DATASETS: list(datasets)}
    if "split" in rows.columns and "dataset" in rows.columns:
        for name, split in rows.select("dataset", "split").unique().sort("split", "dataset").iter_rows():
            if name in found[MEAN_OVER_DATASETS]:
                found.setdefault(split, []).append(name)
    return {split: names for split, names in found.items() if names}


@dataclass(frozen=True, slots=True)
class _Compared:
    """Two systems on the same questions: their scores, and their scores on the same draws."""

    scores: tuple[dict[str, float | None], dict[str, float | None]]
    draws: tuple[Draws, Draws]


def _compared(
    pair: Sequence[Cells], names: Sequence[str], replicates: int, seed: int, shown: Progress
) -> _Compared:
    first, second = resample(pair, names, replicates, seed, shown.advance)
    return _Compared((pair[0].scores(names), pair[1].scores(names)), (first, second))


def _mean(parts: Sequence[_Compared]) -> _Compared:
    """The plain mean over datasets for both systems; a dataset without a value is left out, as in the scores."""
    first, second = (_mean_draws([part.draws[side] for part in parts]) for side in (0, 1))
    ours, theirs = (_mean_scores([part.scores[side] for part in parts]) for side in (0, 1))
    return _Compared((ours, theirs), (first, second))


def _mean_scores(parts: Sequence[dict[str, float | None]]) -> dict[str, float | None]:
    known = {name: [value for part in parts if (value := part[name]) is not None] for name in parts[0]}
    return {name: sum(values) / len(values) if values else None for name, values in known.items()}


def _differences(compared: _Compared) -> dict[str, Difference | None]:
    found: dict[str, Difference | None] = {}
    for name, ours in compared.scores[0].items():
        theirs = compared.scores[1][name]
        found[name] = None
        if METRICS[name].interval and ours is not None and theirs is not None:
            difference = ours - theirs
            ends = interval(compared.draws[0][name] - compared.draws[1][name], difference)
            found[name] = ends and {"difference": difference, "low": ends[0], "high": ends[1]}
    return found


def _progress(label: str, parts: int, wanted: bool, replicates: int = REPLICATES) -> Progress:
    return Progress(label, parts * replicates, "draws", stream=None if wanted else StringIO())
