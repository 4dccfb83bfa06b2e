"""Which columns the tables of a report have, and how tables are made of them.

Metrics come from `metrics.METRICS` with their titles and directions; only columns that are no metrics are described here.
Does not know models, benchmarks or markup.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from calibsft.metrics.metric import Column, Metric, one_decimal, percent
from calibsft.metrics.registry import METRICS, POOLED_METRICS, shown_in
from calibsft.metrics.result import Metrics
from calibsft.report.markup import Cell, Table

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
COMPARED = tuple(metric.name for metric in JUDGED)
FURTHER = tuple(metric for metric in METRICS.values() if metric not in MAIN)
FORM_COLUMNS = (
    Column("unreadable", "Unreadable", "lower", percent, "unreadable"),
    Column("malformed", "Malformed", "lower", percent, "malformed"),
)
DISTINCT = Column("distinct_values", "Distinct values / question", None, one_decimal)
SPLIT_COLUMNS: tuple[Column, ...] = (*_over_datasets(MAIN), *FORM_COLUMNS)
DATASET_COLUMNS: tuple[Column, ...] = (*MAIN, *FORM_COLUMNS)
FURTHER_COLUMNS: tuple[Column, ...] = (
    *(metric for metric in FURTHER if metric.better),
    Column("pearson", "r"),
    Column("spearman", "ρ"),
    *(metric for metric in FURTHER if not metric.better),
)
# The first and the last steps of one training do not compete: neither is marked as better.
TRAINING_COLUMNS: tuple[Column, ...] = tuple(replace(column, better=None) for column in (*JUDGED, DISTINCT))
SEED_COLUMNS: tuple[Column, ...] = (*_over_datasets(MAIN), DISTINCT)
# Unreadable confidences and answers count as 0, which would make a model that states none the best calibrated one.
MOSTLY_UNREADABLE = 0.5


def metric_table(
    title: str,
    keys: Mapping[str, Sequence[str]],
    columns: Sequence[Column],
    body: Iterable[Sequence[Cell]],
    labels: int = 1,
    note: str = "",
) -> Table:
    """A table that begins with the columns `keys`, texts by their title, before the cells of `columns`."""
    rows = tuple((*map(Cell, key), *cells) for *key, cells in zip(*keys.values(), body, strict=True))
    return Table(title, (*keys, *(column.header for column in columns)), rows, labels, note)


def metric_rows(columns: Sequence[Column], parts: Sequence[Metrics]) -> list[tuple[Cell, ...]]:
    """One row of cells per dictionary of metrics, the best of each column marked; an absent metric is a dash.

    Where a dictionary has `intervals`, the ends of a metric's interval stand in its cell.
    """
    return list(zip(*(_column_cells(column, parts) for column in columns), strict=True))


def _column_cells(column: Column, parts: Sequence[Metrics]) -> list[Cell]:
    values: list[float | None] = [part.get(column.name) for part in parts]
    texts = [MISSING if value is None else column.write(value) for value in values]
    ends = [part.get("intervals", {}).get(column.name) or () for part in parts]
    spans = [" – ".join(map(column.write, end)) for end in ends]
    competes = [part.get("unreadable", 0) < MOSTLY_UNREADABLE for part in parts]
    known = [value for value, able in zip(values, competes, strict=True) if able and value is not None]
    best = column.best(known) if len(known) > 1 and len(set(texts)) > 1 else None
    # Marked by what is shown: two models that print the same number are equally good.
    marked = None if best is None else column.write(best)
    return [
        Cell(text, best=able and text == marked, span=span)
        for text, able, span in zip(texts, competes, spans, strict=True)
    ]
