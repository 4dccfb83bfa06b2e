"""The splits of a run's benchmarks - in and out of distribution - as rows of panels or kinds of points."""

from collections.abc import Sequence

import polars as pl

from calibsft.report.summary import ModelResult
from calibsft.report.tables import SPLIT_TITLES

ALL = ""


def splits_of(models: Sequence[ModelResult]) -> list[str]:
    """The splits of all models, in-distribution first, others by name; `ALL` alone where there are none."""
    found = {
        str(split)
        for model in models
        if "split" in model.rows.columns
        for split in model.rows["split"].unique()
    }
    named = [split for split in SPLIT_TITLES if split in found]
    return [*named, *sorted(found - set(named))] or [ALL]


def part_of(model: ModelResult, split: str) -> pl.DataFrame:
    """The rows of one split; without splits, all rows."""
    if split == ALL:
        return model.rows
    return model.rows.filter(split=split) if "split" in model.rows.columns else model.rows.clear()


def split_title(split: str) -> str:
    return SPLIT_TITLES.get(split, split)
