"""Which metrics the tables show, in which direction, and how a number is written.

All numbers of a report are rounded here and nowhere else. Does not know models, benchmarks or markup.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from calibsft.report.markup import Cell

Metrics: TypeAlias = dict[str, Any]

MISSING = "–"


def fraction(value: float) -> str:
    """Three decimals."""
    return f"{value:.3f}"


def percent(value: float) -> str:
    """A fraction as a percentage with one decimal."""
    return f"{100 * value:.1f} %"


def one_decimal(value: float) -> str:
    """One decimal, thousands separated."""
    return f"{value:,.1f}"


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


@dataclass(frozen=True, slots=True)
class Column:
    """A metric's place in a table; `better` is max, min, or None where neither end is good."""

    key: str
    title: str
    write: Callable[[float], str] = fraction
    better: Callable[[list[float]], float] | None = None

    @property
    def header(self) -> str:
        if self.better is None:
            return self.title
        return f"{self.title} {'↑' if self.better is max else '↓'}"


PASS = Column("pass@1", "Pass@1", better=max)
AUROC = Column("auroc", "AUROC", better=max)
BRIER = Column("brier", "Brier", better=min)
SUPPORT = Column("effective_support", "Effective support", one_decimal)
UNREADABLE = Column("unreadable", "Unreadable", percent, better=min)
MALFORMED = Column("malformed", "Malformed", percent, better=min)
SPLIT_ECE = (Column("ece", "ECE, mean", better=min), Column("ece_pooled", "ECE, pooled", better=min))
SPLIT_COLUMNS = (PASS, AUROC, BRIER, *SPLIT_ECE, SUPPORT, UNREADABLE, MALFORMED)
DATASET_COLUMNS = (PASS, AUROC, BRIER, Column("ece", "ECE", better=min), SUPPORT, UNREADABLE, MALFORMED)
FURTHER_COLUMNS = (
    Column("pce", "PCE", better=min),
    Column("cap_brier", "Cap-Brier", better=min),
    Column("e_aurc", "E-AURC", better=min),
    Column("rce", "RCE", better=min),
    Column("rce_tie", "RCE-tie", better=min),
    Column("pearson", "r"),
    Column("spearman", "ρ"),
    Column("mean_confidence", "Mean confidence"),
    Column("support", "Values", one_decimal),
    Column("top1", "Top-1", percent),
    Column("top3", "Top-3", percent),
    Column("extreme_share", "Extreme", percent),
)
DISTINCT = Column("distinct_values", "Distinct values / question", one_decimal)
# Of one training: its first and its last steps are no rivals, so that neither is marked as better.
TRAINING_COLUMNS = tuple(
    replace(column, better=None) for column in (PASS, AUROC, BRIER, DATASET_COLUMNS[3], DISTINCT)
)
SEED_COLUMNS = (PASS, AUROC, BRIER, *SPLIT_ECE, SUPPORT, DISTINCT)


def metric_rows(columns: Sequence[Column], parts: Sequence[Metrics]) -> list[tuple[Cell, ...]]:
    """One row of cells per dictionary of metrics, the best of each column marked; an absent metric is a dash.

    Where a dictionary has `intervals`, the ends of a metric's interval stand in its cell.
    """
    by_column = [_with_spans(column, _column_cells(column, parts), parts) for column in columns]
    return list(zip(*by_column, strict=True))


def _with_spans(column: Column, cells: Sequence[Cell], parts: Sequence[Metrics]) -> list[Cell]:
    ends = [part.get("intervals", {}).get(column.key) for part in parts]
    return [
        replace(cell, span=" – ".join(map(column.write, end))) if end else cell
        for cell, end in zip(cells, ends, strict=True)
    ]


def _column_cells(column: Column, parts: Sequence[Metrics]) -> list[Cell]:
    values: list[float | None] = [part.get(column.key) for part in parts]
    texts = [MISSING if value is None else column.write(value) for value in values]
    known = [value for value in values if value is not None]
    if column.better is None or len(set(texts)) < 2 or len(known) < 2:
        return [Cell(text) for text in texts]
    # Marked by what is shown: two models that print the same number are equally good.
    best = column.write(column.better(known))
    return [Cell(text, best=text == best) for text in texts]
