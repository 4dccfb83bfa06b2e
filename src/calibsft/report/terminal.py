"""Results as plain text for a terminal: the target histogram and the headline of a run."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from calibsft.metrics import Metrics
from calibsft.metrics.metric import Column
from calibsft.metrics.registry import shown_in
from calibsft.report.columns import FORM_COLUMNS, JUDGED, MAIN
from calibsft.success_rates import ending_lines
from calibsft.targets.summary import BuildSummary
from calibsft.text_table import table_lines

BANDS = 10
WIDTH = 24


def build_lines(summary: BuildSummary) -> list[str]:
    """What was kept, and the target histogram before and after balancing."""
    lines = [f"{summary.responses:,} responses to {summary.questions:,} questions"]
    lines += ending_lines(summary.endings)
    if summary.format != summary.from_format:
        lines.append(f"confidences rewritten from {summary.from_format} to {summary.format}")
    if summary.filtered:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in summary.filtered.items())
        lines.append(f"discarded: {reasons}")
    if summary.dropped_groups:
        groups, responses = len(summary.dropped_groups), sum(summary.dropped_groups.values())
        lines.append(f"{groups} target groups below the minimum size left out ({responses} responses)")
    lines += histogram_lines(summary.before, summary.after)
    each = f"{summary.group_size} of each of {len(summary.after)} targets"
    balanced = each if summary.group_size else "not balanced"
    return [*lines, f"kept {summary.rows:,} responses of {summary.rows_questions:,} questions, {balanced}"]


def histogram_lines(before: dict[Fraction, int], after: dict[Fraction, int]) -> list[str]:
    """Ten bands of targets with bars for the responses before and after balancing."""
    columns = [_banded(histogram) for histogram in (before, after)]
    bars = [_bars(column) for column in columns]
    rows = [("target", "before", " " * WIDTH, "after", "")]
    for band in range(BANDS):
        end = "]" if band == BANDS - 1 else ")"
        label = f"[{band / BANDS:.1f}, {(band + 1) / BANDS:.1f}{end}"
        rows.append((label, f"{columns[0][band]:,}", bars[0][band], f"{columns[1][band]:,}", bars[1][band]))
    return table_lines(rows, left=(0, 2, 4))


def _bars(counts: list[int]) -> list[str]:
    tallest = max(counts) or 1
    return ["█" * round(WIDTH * count / tallest) for count in counts]


def _banded(histogram: dict[Fraction, int]) -> list[int]:
    counts = [0] * BANDS
    for target, count in histogram.items():
        counts[min(int(target * BANDS), BANDS - 1)] += count
    return counts


def verdict_lines(counts: dict[str, Any]) -> list[str]:
    """How the grading came out, as aligned lines: responses by grade, for all and by dataset, and by what is malformed."""
    parts = {"all responses": counts["overall"]}
    if set(counts["datasets"]) != {""}:
        parts |= counts["datasets"]
    grades = list(counts["overall"]["grades"])
    rows = [["", "n", "right", *grades]]
    for name, part in parts.items():
        share = "-" if part["correct"] is None else f"{part['correct']:.1%}"
        rows.append([name, f"{part['n']:,}", share, *(f"{part['grades'].get(g, 0):,}" for g in grades)])
    lines = table_lines(rows)
    if unscored := counts["overall"]["unscored"]:
        lines.append(f"{unscored:,} are unscored: their gold could not be read, or the judge gave no verdict")
    return [*lines, *_form_lines(counts["overall"]), f"graded by {', '.join(counts['graders'])}"]


def _form_lines(part: dict[str, Any]) -> list[str]:
    """The share of well-formed responses, and what is wrong with the others, most frequent first."""
    often = sorted(part["reasons"].items(), key=lambda item: -item[1])
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in often)
    return [f"well formed: {part['well_formed']:.1%}" + (f"; malformed: {reasons}" if reasons else "")]


def evaluation_lines(scores: dict[str, Any]) -> list[str]:
    """The scores of an evaluation, also those of other estimators and under token budgets."""
    lines = score_lines(scores)
    if scores.get("estimators"):
        lines += ["", *estimator_lines(scores["estimators"])]
    if scores.get("budgets"):
        lines += ["", *budget_lines(scores["budgets"])]
    return lines


def budget_lines(budgets: list[dict[str, Any]]) -> list[str]:
    """Pooled metrics under every token budget, as aligned lines."""
    rows = [("budget", "forced", *_titles(JUDGED))]
    rows += [
        (f"{part['budget']:,}", f"{part['forced']:.1%}", *_cells(part["overall"], JUDGED)) for part in budgets
    ]
    return table_lines(rows, left=())


def estimator_lines(estimators: list[dict[str, Any]]) -> list[str]:
    """Pooled metrics with the confidence of every estimator, as aligned lines."""
    rows = [("estimator", "n", *_titles(MAIN))]
    rows += [
        (part["estimator"], f"{part['overall']['n']:,}", *_cells(part["overall"], MAIN))
        for part in estimators
    ]
    return table_lines(rows)


def score_lines(scores: dict[str, Any]) -> list[str]:
    """The metrics of `metrics.score_table` as aligned lines: pooled, then by dataset."""
    parts = {"all rows": scores["overall"], **scores["datasets"]}
    parts |= {f"mean, {split}": part for split, part in scores["splits"].items()}
    columns = (*shown_in("terminal"), *FORM_COLUMNS)
    rows = [("", "n", *_titles(columns))]
    rows += [(name, f"{part['n']:,}", *_cells(part, columns)) for name, part in parts.items()]
    return [*table_lines(rows), f"ECE: {scores['overall']['ece_convention']}"]


def _titles(columns: Sequence[Column]) -> list[str]:
    return [column.short or column.title for column in columns]


def _cells(part: Metrics, columns: Sequence[Column]) -> list[str]:
    values = [part.get(column.name) for column in columns]
    return ["-" if value is None else f"{value:.4f}" for value in values]
