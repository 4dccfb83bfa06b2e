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
from calibsft.progress import Progress

# Names have 32-bit codes. Looking up one number for the pair is much faster than looking up the pair.
KEY = pl.col("dataset").to_physical().cast(pl.UInt64) * 2**32 + pl.col("question_id").to_physical()


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A system's scores, and the same on draws of the questions."""

    scores: Mapping[str, float | None]
    draws: Draws

    def intervals(self) -> Intervals:
        return intervals(self.draws, self.scores)


def scored_intervals(
    rows: pl.DataFrame,
    members: Mapping[str, Sequence[str]],
    metrics: Sequence[str] = COMPARED,
    progress: bool = False,
) -> tuple[Intervals, dict[str, Intervals], dict[str, Intervals]]:
    """Intervals of `metrics` for all rows, every dataset and every split; `members` are the datasets of each split."""
    numbered = keyed(rows)
    questions = questions_of(numbered)
    cells = cells_of(numbered, questions)
    spans = _spans(questions) if "dataset" in rows.columns else {}
    with _progress("intervals", 1 + len(spans), progress) as shown:
        (overall,) = _drawn([cells], metrics, shown)
        parts = {name: _drawn([cells.part(span)], metrics, shown)[0] for name, span in spans.items()}
    means = {split: _mean([parts[name] for name in names]).intervals() for split, names in members.items()}
    return overall.intervals(), {name: part.intervals() for name, part in parts.items()}, means


def cells_of(rows: pl.DataFrame, questions: pl.DataFrame) -> Cells:
    """The counts of those `rows` that answer one of `questions`."""
    numbers = questions.lazy().select("key", number=pl.int_range(pl.len(), dtype=pl.Int32))
    numbered = rows.lazy().join(numbers, on="key", maintain_order="left")
    columns = numbered.select("confidence", "correct", "number").collect()
    confidence, correct, number = (column.to_numpy() for column in columns)
    return Cells.from_rows(confidence, correct, number, questions.height)


def questions_of(rows: pl.DataFrame) -> pl.DataFrame:
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
    ours, baseline : columns `question_id`, `confidence` (null = could not be read, which counts as 0), `correct`, and
        optionally `dataset` and `split`.
    names : the metrics to compare.
    progress : show progress on standard error.

    Returns
    -------
    `overall`, `datasets` and `splits` (plain means over datasets): per metric `difference`, `low`, `high` (95 %); None
    where a metric has no value.
    `questions`: how many both answered; `left_out`: how many only one of them answered.
    """
    sides = keyed(ours), keyed(baseline)
    asked = [questions_of(rows) for rows in sides]
    common = asked[0].join(asked[1], on="key", how="semi", maintain_order="left")
    if common.is_empty():
        raise InputError("the two files have no question in common; compare responses to the same questions")
    pair = [cells_of(rows, common) for rows in sides]
    spans = {name: span for name, span in _spans(common).items() if name}
    with _progress("differences", 1 + len(spans), progress, replicates) as shown:
        overall = _drawn(pair, names, shown, replicates, seed)
        parts = {
            name: _drawn([cells.part(span) for cells in pair], names, shown, replicates, seed)
            for name, span in spans.items()
        }
    means = {
        split: [_mean(side) for side in zip(*(parts[name] for name in part), strict=True)]
        for split, part in _members(ours, parts).items()
    }
    return {
        "overall": _differences(*overall),
        "datasets": {name: _differences(*part) for name, part in parts.items()},
        "splits": {split: _differences(*part) for split, part in means.items()},
        "questions": common.height,
        "left_out": sum(questions.height for questions in asked) - 2 * common.height,
        "level": LEVEL,
    }


def keyed(rows: pl.DataFrame) -> pl.DataFrame:
    """`rows` with a number per question; the same id in two datasets is two questions."""
    if "dataset" not in rows.columns:
        rows = rows.with_columns(dataset=pl.lit(""))
    confidence = rows["confidence"]
    confidence = confidence if confidence.dtype.is_float() else confidence.cast(pl.Float64)
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


def _drawn(
    systems: Sequence[Cells],
    names: Sequence[str],
    shown: Progress,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> list[_Drawn]:
    """Systems on the same questions and the same draws."""
    draws = resample(systems, names, replicates, seed, shown.advance)
    return [_Drawn(cells.scores(names), drawn) for cells, drawn in zip(systems, draws, strict=True)]


def _mean(parts: Sequence[_Drawn]) -> _Drawn:
    """The plain mean over datasets, which are drawn separately; one without a value is left out, as in the scores."""
    names = parts[0].draws
    draws = {name: np.stack([part.draws[name] for part in parts]) for name in names}
    with np.errstate(invalid="ignore"):  # 0 / 0 is NaN: in such a draw no dataset has a value
        means = {
            name: np.nansum(drawn, axis=0) / (~np.isnan(drawn)).sum(axis=0) for name, drawn in draws.items()
        }
    return _Drawn({name: mean_of_known(part.scores[name] for part in parts) for name in names}, means)


def mean_of_known(values: Iterable[float | None]) -> float | None:
    """The mean of the values that are not None; None if all are."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _differences(ours: _Drawn, theirs: _Drawn) -> dict[str, Difference | None]:
    found: dict[str, Difference | None] = dict.fromkeys(ours.scores)
    for name, score in ours.scores.items():
        other = theirs.scores[name]
        if METRICS[name].interval and score is not None and other is not None:
            difference = score - other
            ends = interval(ours.draws[name] - theirs.draws[name], difference)
            found[name] = ends and {"difference": difference, "low": ends[0], "high": ends[1]}
    return found


def _progress(label: str, parts: int, wanted: bool, replicates: int = REPLICATES) -> Progress:
    return Progress(label, parts * replicates, "draws", stream=None if wanted else StringIO())
