"""The tables of the study: Markdown by `report.markup`, CSV and LaTeX here.

A cell shows the mean over training seeds and, with several seeds, their standard deviation. Does not measure anything.
"""

import csv
import io
import re
from collections.abc import Mapping, Sequence

import numpy as np

from calibsft.metrics.metric import Column
from calibsft.report.markup import DEVIATION, Cell, Table
from calibsft.reproduction.experiment import Cells, Experiment, metric_column
from calibsft.reproduction.quantity import Estimate, estimate

MISSING = "–"
CSV_DIGITS = 12
LATEX_SPECIAL = re.compile(r"([&%$#_{}])")
LATEX_WORDS = {"±": r"$\pm$", "≤": r"$\le$", "→": r"$\to$", "↑": r"$\uparrow$", "↓": r"$\downarrow$", "λ": r"$\lambda$",
               "ε": r"$\epsilon$", "−": "--", "–": "--"}  # fmt: skip
BENCHMARK_METRICS = ("pass@1", "auroc", "brier", "ece")


def tables_of(experiment: Experiment, cells: Cells, paper: Mapping[str, Mapping[str, float]]) -> list[Table]:
    """What came out here, and the paper's numbers in the same rows and columns where it has any."""
    if not experiment.columns:
        return _benchmark_tables(cells)
    here = _table(f"{experiment.title}, here", experiment.columns, cells, experiment.note)
    known = [column for column in experiment.columns if any(column.name in row for row in paper.values())]
    there = [_paper_table(experiment, known, paper)] if known else []
    return [here, *there]


def _benchmark_tables(cells: Cells) -> list[Table]:
    """A table for each benchmark, with a row for each model."""
    models = {row: found for row, found in cells.items() if "id.ece" in found}
    names = [column.removesuffix(".ece") for column in next(iter(models.values())) if column.endswith(".ece")]
    return [
        _table(
            name, tuple(metric_column(f"{name}.{metric}", "", metric) for metric in BENCHMARK_METRICS), models
        )
        for name in names
        if name not in ("id", "ood", "high-accuracy-ood")
    ]


def _table(title: str, columns: Sequence[Column], cells: Cells, note: str = "") -> Table:
    rows = {row: found for row, found in cells.items() if any(column.name in found for column in columns)}
    by_column = [[_cell(column, rows[row]) for row in rows] for column in columns]
    body = tuple((Cell(row), *found) for row, found in zip(rows, zip(*by_column, strict=True), strict=True))
    return Table(title, ("Model", *(column.header.strip() for column in columns)), body, note=note)


def _cell(column: Column, row: Mapping[str, np.ndarray]) -> Cell:
    if column.name not in row:
        return Cell(MISSING)
    found = estimate(row[column.name])
    if np.isnan(found.value):
        return Cell(MISSING)
    span = "" if found.deviation is None else f"{DEVIATION} {column.write(found.deviation)}"
    return Cell(column.write(found.value), span=span)


def _paper_table(
    experiment: Experiment, columns: Sequence[Column], paper: Mapping[str, Mapping[str, float]]
) -> Table:
    rows = {row: found for row, found in paper.items() if any(column.name in found for column in columns)}
    body = tuple(
        (
            Cell(row),
            *(
                Cell(column.write(found[column.name]) if column.name in found else MISSING)
                for column in columns
            ),
        )
        for row, found in rows.items()
    )
    header = ("Model", *(column.header for column in columns))
    return Table(f"{experiment.title}, in the paper", header, body)


def csv_text(cells: Cells, paper: Mapping[str, Mapping[str, float]]) -> str:
    """Every cell with its interval, and the paper's number where it has one."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["row", "column", *(Estimate.__dataclass_fields__), "paper"])
    for row, found in cells.items():
        for column, quantity in found.items():
            one = estimate(quantity)
            values = [in_csv(getattr(one, name)) for name in Estimate.__dataclass_fields__]
            writer.writerow([row, column, *values, paper.get(row, {}).get(column)])
    return text.getvalue()


def in_csv(value: float | None) -> float | None:
    """A number without the digits in which sums of another order differ."""
    return round(value, CSV_DIGITS) + 0.0 if isinstance(value, float) else value  # no −0.0


def latex_text(tables: Sequence[Table]) -> str:
    """The tables for a paper, with booktabs' rules."""
    return "\n\n".join(_latex(table) for table in tables) + "\n"


def _latex(table: Table) -> str:
    lines = [
        r"\begin{tabular}{" + "l" * table.labels + "r" * (len(table.header) - table.labels) + "}",
        r"\toprule",
        " & ".join(map(_latex_words, table.header)) + r" \\",
        r"\midrule",
        *(
            " & ".join(_latex_words(f"{cell.text} {cell.span}".strip()) for cell in row) + r" \\"
            for row in table.rows
        ),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join([f"% {table.title}", *lines])


def _latex_words(text: str) -> str:
    escaped = LATEX_SPECIAL.sub(r"\\\1", text.replace("\\", "/"))
    for character, word in LATEX_WORDS.items():
        escaped = escaped.replace(character, word)
    return escaped
