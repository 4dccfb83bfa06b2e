"""The splits of a run's benchmarks: in which order they stand, what they are called, and which rows are theirs."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import polars as pl

from calibsft.metrics import MEAN_OVER_DATASETS, Metrics
from calibsft.report.summary import ModelResult

# What figures show of models without splits.
ALL = ""
TITLES = {"id": "In distribution", "ood": "Out of distribution", MEAN_OVER_DATASETS: "All benchmarks"}


def split_title(split: str) -> str:
    """What a split is called."""
    return TITLES.get(split, split)


def shown_splits(scores: Sequence[Mapping[str, Any]]) -> list[str]:
    """The splits that tables show; all benchmarks together where there are none."""
    found = {split for score in scores for split in score["splits"]}
    return _in_order(found - {MEAN_OVER_DATASETS}) or [MEAN_OVER_DATASETS]


def mean_over_all(score: Mapping[str, Any]) -> Metrics:
    """The means over all benchmarks; without benchmarks, the metrics of all rows."""
    found: Metrics = score["splits"].get(MEAN_OVER_DATASETS, score["overall"])
    return found


def splits_of(models: Sequence[ModelResult]) -> list[str]:
    """The splits that figures show; `ALL` alone where there are none."""
    rows = [model.rows for model in models if "split" in model.rows.columns]
    return _in_order({str(split) for found in rows for split in found["split"].unique()}) or [ALL]


def part_of(model: ModelResult, split: str) -> pl.DataFrame:
    """The rows of one split; without splits, all rows."""
    if split == ALL:
        return model.rows
    return model.rows.filter(split=split) if "split" in model.rows.columns else model.rows.clear()


def _in_order(found: Collection[str]) -> list[str]:
    """In-distribution first, then the others that have a title, then the rest by name."""
    return [*(split for split in TITLES if split in found), *sorted(set(found) - set(TITLES))]
