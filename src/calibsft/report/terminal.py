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
ENDS = ("  from", "  to")


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
    lines += _histogram_lines(summary.before, summary.after)
    kept = f"kept {summary.rows:,} responses of {summary.rows_questions:,} questions"
    return [*lines, f"{kept}, {_evenness(summary)}"]


def _evenness(summary: BuildSummary) -> str:
    """What a training set has equally many of, in words."""
    if summary.pairs:
        return f"{summary.pairs:,} questions of each success rate"
    if summary.group_size:
        return f"{summary.group_size} of each of {len(summary.after)} targets"
    return "not balanced"


def _histogram_lines(*histograms: dict[Fraction, int]) -> list[str]:
    """Ten bands of targets with bars for the responses before and after balancing."""
    columns = []
    for histogram in histograms:
        counts = [0] * BANDS
        for target, count in histogram.items():
            counts[min(int(target * BANDS), BANDS - 1)] += count
        tallest = max(counts) or 1
        columns.append([(f"{count:,}", "█" * round(WIDTH * count / tallest)) for count in counts])
    rows = [("target", "before", " " * WIDTH, "after", "")]
    for band, (before, after) in enumerate(zip(*columns, strict=True)):
        end = "]" if band == BANDS - 1 else ")"
        rows.append((f"[{band / BANDS:.1f}, {(band + 1) / BANDS:.1f}{end}", *before, *after))
    return table_lines(rows, left=(0, 2, 4))


def verdict_lines(counts: dict[str, Any]) -> list[str]:
    """The outcome of grading: responses by grade, for all and by dataset, and what is malformed."""
    overall = counts["overall"]
    parts = {"all responses": overall, **(counts["datasets"] if set(counts["datasets"]) != {""} else {})}
    grades = list(overall["grades"])
    rows = [["", "n", "right", *grades]]
    for name, part in parts.items():
        share = "-" if part["correct"] is None else f"{part['correct']:.1%}"
        rows.append([name, f"{part['n']:,}", share, *(f"{part['grades'].get(g, 0):,}" for g in grades)])
    lines = table_lines(rows)
    if unscored := overall["unscored"]:
        lines.append(f"{unscored:,} are unscored: their gold could not be read, or the judge gave no verdict")
    often = sorted(overall["reasons"].items(), key=lambda item: -item[1])
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in often)
    malformed = f"; malformed: {reasons}" if reasons else ""
    return [
        *lines,
        f"well formed: {overall['well_formed']:.1%}{malformed}",
        f"graded by {', '.join(counts['graders'])}",
    ]


def evaluation_lines(scores: dict[str, Any]) -> list[str]:
    """The scores of an evaluation: pooled, by dataset, with other estimators, and under token budgets."""
    parts = {"all rows": scores["overall"], **scores["datasets"]}
    parts |= {f"mean, {split}": part for split, part in scores["splits"].items()}
    rows = [((name, f"{part['n']:,}"), part) for name, part in parts.items()]
    lines = _metric_lines(("", "n"), rows, (*shown_in("terminal"), *FORM_COLUMNS))
    if "intervals" in scores["overall"]:
        lines.append(f"{ENDS[0].strip()}, {ENDS[1].strip()}: 95 % intervals, by drawing questions")
    lines.append(f"ECE: {scores['overall']['ece_convention']}")
    if estimators := scores.get("estimators"):
        rows = [
            ((found["estimator"], f"{found['overall']['n']:,}"), found["overall"]) for found in estimators
        ]
        lines += ["", *_metric_lines(("estimator", "n"), rows, MAIN)]
    if budgets := scores.get("budgets"):
        rows = [((f"{cut['budget']:,}", f"{cut['forced']:.1%}"), cut["overall"]) for cut in budgets]
        lines += ["", *_metric_lines(("budget", "forced"), rows, JUDGED, left=())]
    return lines


def _metric_lines(
    names: tuple[str, str],
    rows: Sequence[tuple[tuple[str, str], Metrics]],
    columns: Sequence[Column],
    left: tuple[int, ...] = (0,),
) -> list[str]:
    """Aligned lines, each with two keys under `names` and the metrics of `columns`; a dash for no value.

    Where a part has intervals, their ends stand in two lines under it.
    """
    lines = [(*names, *(column.short or column.title for column in columns))]
    for keys, part in rows:
        values = [part.get(column.name) for column in columns]
        lines.append((*keys, *(_shown(value, "-") for value in values)))
        if intervals := part.get("intervals"):
            ends = [intervals.get(column.name) or (None, None) for column in columns]
            lines += [(name, "", *(_shown(end[place]) for end in ends)) for place, name in enumerate(ENDS)]
    return table_lines(lines, left)


def _shown(value: float | None, missing: str = "") -> str:
    return missing if value is None else f"{value:.4f}"
