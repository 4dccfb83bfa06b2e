"""Scores of a file in the forms that people paste elsewhere: CSV, Markdown, and differences as aligned lines."""

import csv
import io
from collections.abc import Mapping
from typing import Any

from calibsft.metrics.registry import METRICS
from calibsft.metrics.result import CalibrationCheck, Difference, Differences, Scores
from calibsft.text_table import markdown_row, table_lines

COLUMNS = ("n", *METRICS, "unreadable", "malformed", "pearson", "spearman")
CHECK_TITLES = ("", "n", "ECE", "noise", "noise 95 %", "p")


def score_rows(scores: Scores) -> list[tuple[str, str, Mapping[str, Any]]]:
    """What is scored - all rows, a dataset, a mean over datasets - its name, and its metrics."""
    rows: list[tuple[str, str, Mapping[str, Any]]] = [("all", "", scores["overall"])]
    rows += [("dataset", name, part) for name, part in scores["datasets"].items()]
    return rows + [("mean", name, part) for name, part in scores["splits"].items()]


def csv_lines(scores: Scores) -> list[str]:
    """One line per scored part, with the ends of the intervals where there are any; empty for no value."""
    bounded = sorted(scores["overall"].get("intervals", {}))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    ends = [f"{name}_{end}" for name in bounded for end in ("low", "high")]
    writer.writerow(["part", "name", *COLUMNS, *ends])
    for kind, name, part in score_rows(scores):
        found = part.get("intervals", {})
        bounds = [end for metric in bounded for end in (found.get(metric) or ("", ""))]
        writer.writerow([kind, _harmless(name), *(part.get(column) for column in COLUMNS), *bounds])
    return text.getvalue().splitlines()


def markdown_lines(scores: Scores) -> list[str]:
    """A Markdown table with four digits, intervals in brackets."""
    lines = ["| | " + " | ".join(COLUMNS) + " |", "|---|" + "---:|" * len(COLUMNS)]
    for kind, name, part in score_rows(scores):
        label = {"all": "all rows", "dataset": name}.get(kind, f"mean, {name}").replace("|", r"\|")
        lines.append(markdown_row((label, *(_cell(part, column) for column in COLUMNS))))
    return [*lines, "", f"ECE: {scores['overall']['ece_convention']}"]


def correlation_lines(scores: Scores) -> list[str]:
    """The correlation of mean confidence and accuracy over datasets, on one line; none for too few datasets."""
    found = [
        f"{split}: Pearson {part['pearson']:.4f}, Spearman {part['spearman']:.4f}"
        for split, part in scores["splits"].items()
        if part["pearson"] is not None
    ]
    return [f"mean confidence and accuracy by dataset, correlation: {'; '.join(found)}"] if found else []


def check_lines(scores: Scores) -> list[str]:
    """The calibration check, one line each for all rows and every dataset."""
    parts = {"all rows": scores["overall"], **scores["datasets"]}
    rows = [(name, part["check"]) for name, part in parts.items()]
    draws = next((check["draws"] for _, check in rows if check), 0)
    asked = "questions" in scores["overall"]
    taken = "on one response to each question" if asked else "as if every response were to another question"
    return [
        "",
        f"calibration check, {taken}",
        *table_lines([CHECK_TITLES, *((name, *_check_cells(check)) for name, check in rows)]),
        f"noise: ECE of {draws:,} draws of outcomes as the confidences claim, mean and 95 % quantile;"
        " p: share of draws that fit as badly",
    ]


def _check_cells(check: CalibrationCheck | None) -> tuple[str, ...]:
    if check is None:
        return ("-",) * (len(CHECK_TITLES) - 1)
    shown = (check[key] for key in ("ece", "noise_ece", "noise_ece_95", "p_value"))
    return f"{check['n']:,}", *(f"{value:.4f}" for value in shown)


def difference_lines(against: Differences) -> list[str]:
    """Paired differences to the baseline, one line per metric: for all, by dataset, and of means over datasets."""
    parts = {"all questions": against["overall"], **against["datasets"]}
    parts |= {f"mean, {split}": part for split, part in against["splits"].items()}
    left_out = f", {against['left_out']:,} answered by one of them left out" if against["left_out"] else ""
    lines = ["", f"less {against['baseline']}, on {against['questions']:,} questions{left_out}"]
    for name, part in parts.items():
        lines += [f"{name}:", *table_lines([_difference(*item) for item in part.items()], left=(0, 1))]
    return [*lines, f"intervals: {against['level']:.0%}, by drawing questions"]


def _difference(metric: str, found: Difference | None) -> tuple[str, str]:
    if found is None:
        return f"  {metric}", "-"
    return f"  {metric}", f"{found['difference']:+.4f}  [{found['low']:+.4f}, {found['high']:+.4f}]"


def _cell(part: Mapping[str, Any], column: str) -> str:
    value = part.get(column)
    if value is None:
        return "–"
    text = f"{value:,}" if isinstance(value, int) else f"{value:.4f}"
    ends = part.get("intervals", {}).get(column)
    return f"{text} [{ends[0]:.4f}, {ends[1]:.4f}]" if ends else text


def _harmless(name: str) -> str:
    """A name that a spreadsheet does not take for a formula."""
    return f"'{name}" if name.startswith(("=", "+", "-", "@", "\t", "\r")) else name
