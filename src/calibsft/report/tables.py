"""The tables of a report, as rows of plain text that Markdown and HTML share.

Works on the dictionaries of `metrics.score_table`. Does not compute metrics, round numbers (`columns`), escape
text (`markup`) or know HTML.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import polars as pl

from calibsft.metrics import MEAN_OVER_DATASETS
from calibsft.metrics.metric import percent
from calibsft.metrics.ranking import AUROC
from calibsft.metrics.result import Metrics
from calibsft.metrics.score import EXCLUDED_KEYS
from calibsft.report.columns import (
    DATASET_COLUMNS,
    FURTHER_COLUMNS,
    MISSING,
    SPLIT_COLUMNS,
    TRAINING_COLUMNS,
    duration,
    metric_rows,
    whole,
)
from calibsft.report.markup import Cell, Table
from calibsft.report.summary import ModelResult, StageCost, TrainingRun, TrainingSet
from calibsft.responses.parse import Reason

Score: TypeAlias = Mapping[str, Any]

SPLIT_TITLES = {
    "id": "In distribution",
    "ood": "Out of distribution",
    MEAN_OVER_DATASETS: "All benchmarks",
}


def headline_tables(labels: Sequence[str], scores: Sequence[Score]) -> list[Table]:
    """One comparison per split, in-distribution first, with a row per model.

    All columns but "ECE, pooled" are plain means over the split's benchmarks. A run without splits gets
    one table over all benchmarks.
    """
    return [_headline(split, labels, scores) for split in shown_splits(scores)]


def further_tables(labels: Sequence[str], scores: Sequence[Score]) -> list[Table]:
    """The metrics that the headline leaves out, by split as there."""
    return [_further(split, labels, scores) for split in shown_splits(scores)]


def shown_splits(scores: Sequence[Score]) -> list[str]:
    """The splits of the models, in-distribution first; all benchmarks together where there are none."""
    found = {split for score in scores for split in score["splits"]} - {MEAN_OVER_DATASETS}
    named = [split for split in SPLIT_TITLES if split in found]
    return [*named, *sorted(found - set(named))] or [MEAN_OVER_DATASETS]


def split_title(split: str) -> str:
    """What a split is called."""
    return SPLIT_TITLES.get(split, split)


def _further(split: str, labels: Sequence[str], scores: Sequence[Score]) -> Table:
    parts = [score["splits"].get(split, {}) for score in scores]
    return Table(
        title=f"Further metrics, {split_title(split).lower()}",
        header=("Model", *(column.header for column in FURTHER_COLUMNS)),
        rows=labelled(labels, metric_rows(FURTHER_COLUMNS, parts)),
    )


def labelled(labels: Sequence[str], body: Sequence[tuple[Cell, ...]]) -> tuple[tuple[Cell, ...], ...]:
    """Rows with their labels before them."""
    return tuple((Cell(label), *cells) for label, cells in zip(labels, body, strict=True))


def _headline(split: str, labels: Sequence[str], scores: Sequence[Score]) -> Table:
    parts = [score["splits"].get(split, {}) for score in scores]
    count = max(part.get("datasets", 0) for part in parts)
    body = metric_rows(SPLIT_COLUMNS, parts)
    if len({part.get("auroc_datasets") for part in parts}) > 1:
        # means over different benchmarks are not compared
        place = SPLIT_COLUMNS.index(AUROC)
        body = [(*row[:place], Cell(row[place].text), *row[place + 1 :]) for row in body]
    return Table(
        title=f"{split_title(split)}, {count} benchmark{'s' if count != 1 else ''}",
        header=("Model", *(column.header for column in SPLIT_COLUMNS)),
        rows=labelled(labels, body),
        note=_auroc_note(labels, parts),
    )


def _auroc_note(labels: Sequence[str], parts: Sequence[Metrics]) -> str:
    """Say where a benchmark with only right or only wrong answers is missing from the mean AUROC."""
    short = [
        f"{label}: {part['auroc_datasets']} of {part['datasets']}"
        for label, part in zip(labels, parts, strict=True)
        if part and part["auroc_datasets"] < part["datasets"]
    ]
    if not short:
        return ""
    return f"AUROC needs right and wrong answers; benchmarks in its mean: {', '.join(short)}."


def benchmark_table(labels: Sequence[str], scores: Sequence[Score], split_of: dict[str, str]) -> Table:
    """One row per benchmark and model; benchmarks in the order of `split_of` (name to split)."""
    rows: list[tuple[Cell, ...]] = []
    for name, split in split_of.items():
        parts = [score["datasets"].get(name, {}) for score in scores]
        for label, part, cells in zip(labels, parts, metric_rows(DATASET_COLUMNS, parts), strict=True):
            count = Cell(whole(part["n"]) if part else MISSING)
            rows.append((Cell(name), Cell(split.upper()), Cell(label), count, *cells))
    titles = ("Benchmark", "Split", "Model", "Responses", *(column.header for column in DATASET_COLUMNS))
    return Table("Per benchmark", titles, tuple(rows), labels=3, group=len(labels))


def training_table(runs: Sequence[TrainingRun]) -> Table:
    """How each training began and ended, on the responses that it sampled."""
    spans = [(f"{run.label}, {name}", steps) for run in runs for name, steps in _ends(run.steps)]
    means = [{column.name: steps[column.name].mean() for column in TRAINING_COLUMNS} for _, steps in spans]
    return Table(
        "Training by RL",
        ("Training", *(column.title for column in TRAINING_COLUMNS)),
        labelled([label for label, _ in spans], metric_rows(TRAINING_COLUMNS, means)),
        note="Means over the first and the last tenth of the rollout steps.",
    )


def _ends(steps: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
    """The first and the last tenth of the steps, by what a table calls them."""
    tenth = max(1, len(steps) // 10)
    return [(f"first {tenth} of {len(steps)} steps", steps[:tenth]), (f"last {tenth}", steps[-tenth:])]


def excluded_table(labels: Sequence[str], scores: Sequence[Score]) -> Table | None:
    """The same means without the responses whose confidence cannot be read; None when all can."""
    parts = [score["splits"].get(MEAN_OVER_DATASETS, score["overall"]) for score in scores]
    if not any("excluded" in part for part in parts):
        return None
    columns = [column for column in DATASET_COLUMNS if column.name in EXCLUDED_KEYS]
    body = metric_rows(columns, [part.get("excluded", part) for part in parts])
    rows = tuple(
        (Cell(label), Cell(percent(part["unreadable"])), *cells)
        for label, part, cells in zip(labels, parts, body, strict=True)
    )
    header = ("Model", "Unreadable", *(column.header for column in columns))
    return Table("Without unreadable confidences, mean over all benchmarks", header, rows)


def reasons_table(models: Sequence[ModelResult]) -> Table | None:
    """How many responses of each model were not well formed, by the parser's reason; None if there are none."""
    counts = [
        dict(model.rows.filter(pl.col("reason") != Reason.OK)["reason"].value_counts().iter_rows())
        for model in models
    ]
    reasons = sorted({reason for count in counts for reason in count})
    if not reasons:
        return None
    rows = tuple(
        (Cell(model.label), *(Cell(whole(count.get(reason, 0))) for reason in reasons))
        for model, count in zip(models, counts, strict=True)
    )
    return Table("Responses that are not well formed, by reason", ("Model", *reasons), rows)


def filter_table(sets: Sequence[TrainingSet]) -> Table | None:
    """Responses left out of each training set by reason, most frequent first; None if there are none."""
    total: Counter[str] = Counter()
    for training_set in sets:
        total.update(training_set.filtered)
    ordered = sorted(total, key=lambda reason: (-total[reason], reason))
    rows = tuple(
        (Cell(reason), *(Cell(whole(s.filtered.get(reason, 0))) for s in sets)) for reason in ordered
    )
    titles = [s.label for s in sets] if len(sets) > 1 else ["Responses"]
    return Table("Left out of the training data", ("Reason", *titles), rows) if rows else None


def cost_table(costs: Sequence[StageCost]) -> Table | None:
    """Time, tokens and memory per stage, and their sum or peak; None without stages."""
    if not costs:
        return None
    tokens = [cost.tokens for cost in costs if cost.tokens is not None]
    memory = [cost.peak_memory_mb for cost in costs if cost.peak_memory_mb is not None]
    seconds = sum(cost.seconds for cost in costs)
    # Without a rate: generated and trained tokens do not cost the same.
    total = _cost_row("Total", seconds, sum(tokens) if tokens else None, None, max(memory, default=None))
    rows = tuple(_stage_row(cost) for cost in costs)
    header = ("Stage", "Time", "Tokens", "Tokens per second", "Peak memory")
    return Table("Cost per stage", header, (*rows, total))


def _stage_row(cost: StageCost) -> tuple[Cell, ...]:
    rate = cost.tokens / cost.seconds if cost.tokens is not None and cost.seconds > 0 else None
    return _cost_row(cost.stage, cost.seconds, cost.tokens, rate, cost.peak_memory_mb)


def _cost_row(
    stage: str, seconds: float, tokens: float | None, rate: float | None, memory_mb: float | None
) -> tuple[Cell, ...]:
    memory = MISSING if memory_mb is None else f"{whole(memory_mb)} MB"
    return Cell(stage), Cell(duration(seconds)), _number(tokens), _number(rate), Cell(memory)


def _number(value: float | None) -> Cell:
    return Cell(MISSING if value is None else whole(value))
