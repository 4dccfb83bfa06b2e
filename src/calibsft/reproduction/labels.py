"""What a training set taught: its labels against what was right, and how they are distributed."""

from pathlib import Path

import numpy as np
import polars as pl

from calibsft.metrics.calibration import brier
from calibsft.metrics.ranking import auroc
from calibsft.metrics.table import ConfidenceTable
from calibsft.schema import LABEL, QUESTION_KEYS
from calibsft.targets.card import LABEL_TABLE
from calibsft.targets.summary import BuildSummary

TENTHS = 10


def taught(folder: Path) -> pl.DataFrame:
    """The drawn responses of a training set with their exact labels."""
    return pl.read_parquet(folder / LABEL_TABLE).filter("drawn")


def label_table(folder: Path) -> ConfidenceTable:
    """The labels as if they were stated confidences."""
    rows = taught(folder)
    numerator, denominator = (rows[name].cast(pl.Float64) for name in LABEL)
    return ConfidenceTable.from_rows((numerator / denominator).to_numpy(), rows["correct"].to_numpy())


def label_auroc(folder: Path) -> float:
    """How well the labels rank right above wrong responses; NaN if all are right."""
    found = auroc(label_table(folder))
    return np.nan if found is None else found


def label_brier(folder: Path) -> float:
    return brier(label_table(folder))


def right_closed_shares(folder: Path) -> list[float]:
    """The share of labels in [0, .1], (.1, .2], … (.9, 1], exactly."""
    rows = taught(folder).select(pl.col(LABEL[0]).cast(pl.Int64), pl.col(LABEL[1]).cast(pl.Int64))
    numerator, denominator = (rows[name].to_numpy() for name in LABEL)
    # The bin of x is the number of tenths below x: ⌈10x⌉ − 1, and 0 for x = 0.
    bins = np.maximum(-(-TENTHS * numerator // denominator) - 1, 0)
    shares: list[float] = (np.bincount(bins, minlength=TENTHS) / len(rows)).tolist()
    return shares


def distinct_labels(folder: Path) -> int:
    return taught(folder).select(LABEL).n_unique()


def group_sizes(folder: Path) -> list[int]:
    """How many responses each label has, before any is drawn for the second time."""
    return sorted(BuildSummary.read(folder).after.values())


def extreme_share(folder: Path) -> float:
    """The share of all labelled responses, before balancing, whose label is 0 or 1."""
    counts = BuildSummary.read(folder).before
    return sum(count for value, count in counts.items() if value in (0, 1)) / sum(counts.values())


def margin(folder: Path) -> float:
    """The mean difference between the labels of right and of wrong responses to one question."""
    rows = pl.read_parquet(folder / LABEL_TABLE).drop_nulls(LABEL)
    value = pl.col(LABEL[0]).cast(pl.Float64) / pl.col(LABEL[1]).cast(pl.Float64)
    means = rows.group_by(QUESTION_KEYS, maintain_order=True).agg(
        right=value.filter("correct").mean(), wrong=value.filter(~pl.col("correct")).mean()
    )
    found = means.drop_nulls().select((pl.col("right") - pl.col("wrong")).mean()).item()
    return float(found)
