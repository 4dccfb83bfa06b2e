"""The tables of a report, as rows of plain text that Markdown and HTML share.

Works on the dictionaries of `metrics.score_table`. Does not compute metrics, round numbers (`columns`), escape
text (`markup`) or know HTML.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, TypeAlias

import polars as pl

from calibsft.metrics.metric import percent
from calibsft.metrics.ranking import AUROC
from calibsft.metrics.result import MEAN_OVER_DATASETS, Metrics
from calibsft.metrics.score import EXCLUDED_KEYS
from calibsft.report.columns import (
    DATASET_COLUMNS,
    FURTHER_COLUMNS,
    MISSING,
    SPLIT_COLUMNS,
    TRAINING_COLUMNS,
    duration,
    metric_rows,
    metric_table,
    whole,
)
from calibsft.report.markup import Cell, Table
from calibsft.report.splits import mean_over_all, shown_splits, split_title
from calibsft.report.summary import ModelResult, StageCost, TrainingRun, TrainingSet
from calibsft.responses.parse import Reason

Score: TypeAlias = Mapping[str, Any]


def headline_tables(labels: Sequence[str], scores: Sequence[Score]) -> list[Table]:
    """One comparison per split, in-distribution first, with a row per model.

    All columns but "ECE, pooled" are plain means over the split's benchmarks. A run without splits gets
    one table over all benchmarks.
    """
    return [_headline(split, labels, parts) for split, parts in _by_split(scores)]


def further_tables(labels: Sequence[str], scores: Sequence[Score]) -> list[Table]:
    """The metrics that the headline leaves out, by split as there."""
    return [
        metric_table(
            f"Further metrics, {split_title(split).lower()}",
            {"Model": labels},
            FURTHER_COLUMNS,
            metric_rows(FURTHER_COLUMNS, parts),
        )
        for split, parts in _by_split(scores)
    ]


def _by_split(scores: Sequence[Score]) -> Iterator[tuple[str, list[Metrics]]]:
    """Every shown split with the means of each model, empty for a model without that split."""
    for split in shown_splits(scores):
        yield split, [score["splits"].get(split, {}) for score in scores]


def _headline(split: str, labels: Sequence[str], parts: Sequence[Metrics]) -> Table:
    count = max(part.get("datasets", 0) for part in parts)
    body = metric_rows(SPLIT_COLUMNS, parts)
    if len({part.get("auroc_datasets") for part in parts}) > 1:
        # means over different benchmarks are not compared
        place = SPLIT_COLUMNS.index(AUROC)
        body = [(*row[:place], Cell(row[place].text), *row[place + 1 :]) for row in body]
    short = [
        f"{label}: {part['auroc_datasets']} of {part['datasets']}"
        for label, part in zip(labels, parts, strict=True)
        if part and part["auroc_datasets"] < part["datasets"]
    ]
    needs = "AUROC needs right and wrong answers; benchmarks in its mean:"
    return metric_table(
        _headline_title(split, count),
        {"Model": labels},
        SPLIT_COLUMNS,
        body,
        note=f"{needs} {', '.join(short)}." if short else "",
    )


def _headline_title(split: str, count: int) -> str:
    if split == MEAN_OVER_DATASETS and count == 1:
        return "All responses"  # a file without benchmarks counts as one
    return f"{split_title(split)}, {count} benchmark{'s' if count != 1 else ''}"


def benchmark_table(labels: Sequence[str], scores: Sequence[Score], split_of: dict[str, str]) -> Table:
    """One row per benchmark and model; benchmarks in the order of `split_of` (name to split)."""
    parts = [[score["datasets"].get(name, {}) for score in scores] for name in split_of]
    keys = {
        "Benchmark": [name for name in split_of for _ in labels],
        "Split": [split.upper() for split in split_of.values() for _ in labels],
        "Model": [*labels] * len(split_of),
        "Responses": [whole(part["n"]) if part else MISSING for part in chain(*parts)],
    }
    body = chain(*(metric_rows(DATASET_COLUMNS, part) for part in parts))
    table = metric_table("Per benchmark", keys, DATASET_COLUMNS, body, labels=3)
    return replace(table, group=len(labels))


def training_table(runs: Sequence[TrainingRun]) -> Table:
    """How each training began and ended, on the responses that it sampled."""
    keys, means = [], []
    for run in runs:
        tenth = max(1, len(run.steps) // 10)
        first, last = f"first {tenth} of {len(run.steps)} steps", f"last {tenth}"
        for name, steps in ((first, run.steps[:tenth]), (last, run.steps[-tenth:])):
            keys.append(f"{run.label}, {name}")
            means.append({column.name: steps[column.name].mean() for column in TRAINING_COLUMNS})
    note = "Means over the first and the last tenth of the rollout steps."
    body = metric_rows(TRAINING_COLUMNS, means)
    return metric_table("Training by RL", {"Training": keys}, TRAINING_COLUMNS, body, note=note)


def excluded_table(labels: Sequence[str], scores: Sequence[Score]) -> Table | None:
    """The same means without the responses whose confidence cannot be read; None when all can."""
    parts = [mean_over_all(score) for score in scores]
    if not any("excluded" in part for part in parts):
        return None
    columns = [column for column in DATASET_COLUMNS if column.name in EXCLUDED_KEYS]
    body = metric_rows(columns, [part.get("excluded", part) for part in parts])
    keys = {"Model": labels, "Unreadable": [percent(part["unreadable"]) for part in parts]}
    title = "Without unreadable confidences, mean over all benchmarks"
    return metric_table(title, keys, columns, body)


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
    total = StageCost("Total", seconds, sum(tokens) if tokens else None, max(memory, default=None))
    # Without a rate: generated and trained tokens do not cost the same.
    rows = (*(_cost_row(cost, cost.tokens) for cost in costs), _cost_row(total, None))
    return Table("Cost per stage", ("Stage", "Time", "Tokens", "Tokens per second", "Peak memory"), rows)


def _cost_row(cost: StageCost, rated: int | None) -> tuple[Cell, ...]:
    """The row of a stage; `rated` are the tokens whose rate is shown, None for no rate."""
    tokens = MISSING if cost.tokens is None else whole(cost.tokens)
    rate = whole(rated / cost.seconds) if rated is not None and cost.seconds > 0 else MISSING
    memory = MISSING if cost.peak_memory_mb is None else f"{whole(cost.peak_memory_mb)} MB"
    return Cell(cost.stage), Cell(duration(cost.seconds)), Cell(tokens), Cell(rate), Cell(memory)
