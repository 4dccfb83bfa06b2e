"""What an experiment is: models, what is measured of them, and how that is shown.

An experiment does not train, judge or write: the pipeline trains its models, `verdicts` judges, `document` writes.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from calibsft.metrics.metric import Column
from calibsft.metrics.registry import METRICS
from calibsft.report.figures import Plot
from calibsft.report.summary import RunSummary
from calibsft.reproduction.quantity import Quantity
from calibsft.reproduction.study import SPLITS, Pipeline, Study

# What was measured, by row and column; both are named as in the paper.
Cells: TypeAlias = dict[str, dict[str, Quantity]]


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure: its name, how it is drawn, and what it shows."""

    name: str
    plot: Plot
    summary: Callable[[Study], RunSummary]


@dataclass(frozen=True, slots=True)
class Experiment:
    """One table of the paper, or a figure.

    Attributes
    ----------
    paper : which of the paper's tables and figures it is; empty for controls of our own.
    pipelines : the models that it needs.
    measure : from the study to its cells.
    columns : the columns that its table shows; other cells are for claims alone.
    note : what a reader must know about the table.
    """

    name: str
    title: str
    paper: str
    pipelines: tuple[Pipeline, ...]
    measure: Callable[[Study], Cells]
    columns: tuple[Column, ...]
    note: str = ""
    figures: tuple[Drawing, ...] = ()


def split_columns(*metrics: str, splits: Sequence[str] = SPLITS) -> tuple[Column, ...]:
    """A column for each metric, split by split."""
    return tuple(
        metric_column(f"{split}.{metric}", split.upper(), metric) for split in splits for metric in metrics
    )


def metric_column(name: str, part: str, metric: str) -> Column:
    """A column with a metric of some part of the benchmarks."""
    known = METRICS[metric]
    return Column(name, f"{part} {known.title}", known.better, known.write)


def by_split(study: Study, rows: dict[str, Pipeline], metrics: Iterable[str]) -> Cells:
    """Metrics of several models, as means over the benchmarks of each split."""
    names = tuple(metrics)
    return {
        row: {
            f"{split}.{metric}": study.model(*pipeline).of(split, metric)
            for split in SPLITS
            for metric in names
        }
        for row, pipeline in rows.items()
    }
