"""Results as plain text for a terminal: the target histogram and the headline of a run."""

from fractions import Fraction
from typing import Any

from calibsft.success_rates import ending_lines
from calibsft.targets.summary import BuildSummary

BANDS = 10
WIDTH = 24
COLUMNS = (
    ("Pass@1", "pass@1"), ("AUROC", "auroc"), ("Brier", "brier"), ("ECE", "ece"),
    ("eff.supp.", "effective_support"), ("Top-1", "top1"), ("unreadable", "unreadable"), ("malformed", "malformed"),
)  # fmt: skip


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
    lines = [f"{'target':<11} {'before':>9} {'':<{WIDTH}} {'after':>7}"]
    columns = [_banded(histogram) for histogram in (before, after)]
    tallest = [max(column) or 1 for column in columns]
    for band in range(BANDS):
        end = "]" if band == BANDS - 1 else ")"
        counts = [column[band] for column in columns]
        bars = [
            ("█" * round(WIDTH * count / top)).ljust(WIDTH)
            for count, top in zip(counts, tallest, strict=True)
        ]
        label = f"[{band / BANDS:.1f}, {(band + 1) / BANDS:.1f}{end}"
        lines.append(f"{label:<11} {counts[0]:>9,} {bars[0]} {counts[1]:>7,} {bars[1]}".rstrip())
    return lines


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
    width = max(len(name) for name in parts)
    lines = [f"{'':<{width}} {'n':>9} {'right':>7} " + " ".join(f"{grade:>{len(grade)}}" for grade in grades)]
    for name, part in parts.items():
        share = "-" if part["correct"] is None else f"{part['correct']:.1%}"
        cells = " ".join(f"{part['grades'].get(grade, 0):>{len(grade)},}" for grade in grades)
        lines.append(f"{name:<{width}} {part['n']:>9,} {share:>7} {cells}")
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
    titles = ("Pass@1", "AUROC", "Brier", "ECE")
    lines = [f"{'budget':>9} {'forced':>7} " + " ".join(f"{title:>9}" for title in titles)]
    for part in budgets:
        values = [part["overall"][key] for key in ("pass@1", "auroc", "brier", "ece")]
        cells = " ".join(f"{'-' if value is None else f'{value:.4f}':>9}" for value in values)
        lines.append(f"{part['budget']:>9,} {part['forced']:>7.1%} {cells}")
    return lines


def estimator_lines(estimators: list[dict[str, Any]]) -> list[str]:
    """Pooled metrics with the confidence of every estimator, as aligned lines."""
    columns = COLUMNS[:5]
    width = max(len(part["estimator"]) for part in estimators)
    lines = [f"{'estimator':<{width}} {'n':>9} " + " ".join(f"{title:>9}" for title, _ in columns)]
    for part in estimators:
        values = [part["overall"][key] for _, key in columns]
        cells = " ".join(f"{'-' if value is None else f'{value:.4f}':>9}" for value in values)
        lines.append(f"{part['estimator']:<{width}} {part['overall']['n']:>9,} {cells}")
    return lines


def score_lines(scores: dict[str, Any]) -> list[str]:
    """The metrics of `metrics.score_table` as aligned lines: pooled, then by dataset."""
    parts = {"all rows": scores["overall"], **scores["datasets"]}
    parts |= {f"mean, {split}": part for split, part in scores["splits"].items()}
    width = max(len(name) for name in parts)
    lines = [f"{'':<{width}} {'n':>9} " + " ".join(f"{title:>9}" for title, _ in COLUMNS)]
    for name, part in parts.items():
        values = [(max(9, len(title)), part.get(key)) for title, key in COLUMNS]
        cells = " ".join(f"{'-' if value is None else f'{value:.4f}':>{wide}}" for wide, value in values)
        lines.append(f"{name:<{width}} {part['n']:>9,} {cells}")
    return [*lines, f"ECE: {scores['overall']['ece_convention']}"]
