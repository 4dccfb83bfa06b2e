"""Which columns the tables of a report have, and how their cells are written.

Metrics come from `metrics.METRICS` with their titles and directions; only columns that are no metrics are described here.
Does not know models, benchmarks or markup.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from calibsft.metrics.metric import Column, Metric, one_decimal, percent
from calibsft.metrics.registry import METRICS, POOLED_METRICS, shown_in
from calibsft.metrics.result import Metrics
from calibsft.report.markup import Cell

MISSING = "–"


def whole(value: float) -> str:
    """No decimals, thousands separated."""
    return f"{value:,.0f}"


def duration(seconds: float) -> str:
    """Seconds as the two units that matter: 8.3 s, 2 min 05 s, 3 h 12 min."""
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def _over_datasets(metrics: Sequence[Metric]) -> Iterator[Column]:
    """Columns of means over datasets; a metric that is also pooled says which of its two columns is which."""
    for metric in metrics:
        pooled = f"{metric.name}_pooled"
        if pooled not in POOLED_METRICS:
            yield metric
        else:
            yield replace(metric, title=f"{metric.title}, mean")
            yield Column(pooled, f"{metric.title}, pooled", metric.better, metric.write)


MAIN = shown_in("report")
# What two models can be compared by.
JUDGED = tuple(metric for metric in MAIN if metric.better)
FURTHER = tuple(metric for metric in METRICS.values() if metric not in MAIN)
FORM_COLUMNS = (
    Column("unreadable", "Unreadable", "lower", percent, "unreadable"),
    Column("malformed", "Malformed", "lower", percent, "malformed"),
)
CORRELATIONS = (Column("pearson", "r"), Column("spearman", "ρ"))
DISTINCT = Column("distinct_values", "Distinct values / question", None, one_decimal)
SPLIT_COLUMNS: tuple[Column, ...] = (*_over_datasets(MAIN), *FORM_COLUMNS)
DATASET_COLUMNS: tuple[Column, ...] = (*MAIN, *FORM_COLUMNS)
FURTHER_COLUMNS: tuple[Column, ...] = (
    *(metric for metric in FURTHER if metric.better),
    *CORRELATIONS,
    *(metric for metric in FURTHER if not metric.better),
)
# Of one training: its first and its last steps are no rivals, so that neither is marked as better.
TRAINING_COLUMNS: tuple[Column, ...] = tuple(replace(column, better=None) for column in (*JUDGED, DISTINCT))
SEED_COLUMNS: tuple[Column, ...] = (*_over_datasets(MAIN), DISTINCT)


def metric_rows(columns: Sequence[Column], parts: Sequence[Metrics]) -> list[tuple[Cell, ...]]:
    """One row of cells per dictionary of metrics, the best of each column marked; an absent metric is a dash.

    Where a dictionary has `intervals`, the ends of a metric's interval stand in its cell.
    """
    by_column = [_with_spans(column, _column_cells(column, parts), parts) for column in columns]
    return list(zip(*by_column, strict=True))


def _with_spans(column: Column, cells: Sequence[Cell], parts: Sequence[Metrics]) -> list[Cell]:
    ends = [part.get("intervals", {}).get(column.name) for part in parts]
    return [
        replace(cell, span=" – ".join(map(column.write, end))) if end else cell
        for cell, end in zip(cells, ends, strict=True)
    ]


def _column_cells(column: Column, parts: Sequence[Metrics]) -> list[Cell]:
    values: list[float | None] = [part.get(column.name) for part in parts]
    texts = [MISSING if value is None else column.write(value) for value in values]
    known = [value for value in values if value is not None]
    if len(set(texts)) < 2 or len(known) < 2 or (best := column.best(known)) is None:
        return [Cell(text) for text in texts]
    # Marked by what is shown: two models that print the same number are equally good.
    return [Cell(text, best=text == column.write(best)) for text in texts]
