"""The figures of a report as SVG text: confidence by correctness, reliability, targets before and after balancing.

Does not compute metrics: all bars over confidences are `metrics.reliability_bins`, which ECE uses too.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

import matplotlib
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from calibsft.metrics import ConfidenceTable, accuracy, expected_calibration_error, reliability_bins
from calibsft.report.columns import fraction, whole
from calibsft.report.style import (
    BLUE,
    GREY,
    ORANGE,
    STYLE,
    bars,
    grid,
    panel_width,
    shared_legend,
    short,
    svg,
)
from calibsft.report.summary import ModelResult, TargetHistogram

DISTRIBUTION_BINS = 20
TICKS = (0, 0.25, 0.5, 0.75, 1)


def confidence_distribution(models: Sequence[ModelResult]) -> str:
    """Share of responses per confidence, right and wrong ones stacked; one panel per model, shared axes.

    Responses without a readable confidence are left out. Lines mark mean confidence and accuracy.
    """
    with matplotlib.rc_context(STYLE):
        rows, columns = grid(len(models))
        width = panel_width(columns)
        figure = Figure(figsize=(width * columns, 0.76 * width * rows + 0.3), layout="constrained")
        axes = list(figure.subplots(rows, columns, sharey=True, squeeze=False).flat)
        for ax, model in zip(axes, models, strict=False):
            _distribution_panel(ax, model)
        for ax in axes[::columns]:
            ax.set_ylabel("share of responses")
        for ax in axes[len(models) :]:
            ax.set_visible(False)
        shared_legend(figure, axes)
        return svg(figure)


def reliability_diagrams(models: Sequence[ModelResult]) -> str:
    """Accuracy per confidence bin against the diagonal, with the number of responses below; pooled rows.

    An unreadable confidence counts as 0 here, as in the tables, so the ECE shown is their pooled ECE.
    """
    with matplotlib.rc_context(STYLE):
        rows, columns = grid(len(models))
        width = panel_width(columns)
        # The space between the two axes of a panel is measured as a share of the whole figure.
        layout = ConstrainedLayoutEngine(hspace=STYLE["figure.constrained_layout.hspace"] / rows)
        figure = Figure(figsize=(width * columns, 1.1 * width * rows + 0.3), layout=layout)
        panels = figure.subfigures(rows, columns, squeeze=False).flat
        axes = [_reliability_panel(panel, model) for panel, model in zip(panels, models, strict=False)]
        shared_legend(figure, axes)
        return svg(figure)


def target_histogram(targets: TargetHistogram) -> str:
    """Training responses per target, before and after balancing; each panel has its own vertical scale."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(8.4, 3.9), layout="constrained")
        axes = figure.subplots(2, 1, sharex=True)
        place = _target_positions([*targets.before, *targets.after])
        parts = {"Before balancing": targets.before, "After balancing": targets.after}
        for ax, (title, counts) in zip(axes, parts.items(), strict=True):
            ax.bar([place[text] for text in counts], list(counts.values()), _bar_width(place), color=BLUE)
            ax.set_title(f"{title}: {whole(sum(counts.values()))} responses", loc="left")
            ax.set_ylabel("responses")
        if not _are_numbers(place):
            axes[1].set_xticks(list(place.values()), [short(text) for text in place])
        axes[1].set_xlabel("target confidence")
        return svg(figure)


def _distribution_panel(ax: Axes, model: ModelResult) -> None:
    ax.set_title(short(model.label), loc="left")
    ax.set(xlim=(0, 1), xlabel="stated confidence")
    readable = model.rows.filter(pl.col("confidence").is_not_null())
    if readable.is_empty():
        ax.text(0.5, 0.5, "no readable confidence", ha="center", transform=ax.transAxes)
        return
    table = _table(readable)
    parts = reliability_bins(table, DISTRIBUTION_BINS)
    left, width = [part.low for part in parts], 1 / DISTRIBUTION_BINS
    right = [part.count * (part.accuracy or 0) / table.responses for part in parts]
    wrong = [part.count * (1 - (part.accuracy or 0)) / table.responses for part in parts]
    bars(ax, left, right, width, BLUE, "correct")
    bars(ax, left, wrong, width, ORANGE, "incorrect", bottom=right)
    mean = float((table.values * table.n).sum()) / table.responses
    ax.axvline(mean, color=GREY, linestyle=(0, (4, 2)), linewidth=1.6, label="mean confidence")
    ax.axvline(accuracy(table), color=GREY, linewidth=1.6, label="accuracy")


def _reliability_panel(panel: SubFigure, model: ModelResult) -> Axes:
    """Draw one model and return the axes whose marks the legend explains."""
    upper: Axes
    lower: Axes
    upper, lower = panel.subplots(2, 1, sharex=True, height_ratios=(5, 2))
    table = _table(model.rows.with_columns(pl.col("confidence").fill_null(0.0)))
    parts = [part for part in reliability_bins(table) if part.count]
    left = [part.low for part in parts]
    bars(upper, left, [part.accuracy or 0 for part in parts], 0.1, BLUE, "accuracy in the bin")
    upper.plot([0, 1], [0, 1], color=GREY, linestyle="dashed", linewidth=1, label="perfectly calibrated")
    for part in parts:
        # from what was said to how often it was right
        said, right = part.confidence or 0.0, part.accuracy or 0.0
        label = "gap to the mean confidence" if part is parts[0] else None
        upper.plot([said, said], [said, right], color=ORANGE, linewidth=2.5, clip_on=False, label=label)
    upper.set(xlim=(0, 1), ylim=(0, 1.02), yticks=TICKS, ylabel="accuracy")
    ece = fraction(expected_calibration_error(table))
    upper.set_title(f"{short(model.label)}\npooled ECE {ece}", loc="left")
    bars(lower, left, [part.count for part in parts], 0.1, GREY)
    lower.set(xlabel="stated confidence", ylabel="count", xticks=TICKS)
    return upper


def _table(rows: pl.DataFrame) -> ConfidenceTable:
    return ConfidenceTable.from_rows(rows["confidence"].to_numpy(), rows["correct"].to_numpy())


def _target_positions(texts: Iterable[str]) -> dict[str, float]:
    """Where each target stands: at its number, or in order of appearance if any is a word such as "low"."""
    distinct = list(dict.fromkeys(texts))
    if _are_numbers(distinct):
        return {text: float(text) for text in distinct}
    return {text: float(index) for index, text in enumerate(distinct)}


def _are_numbers(texts: Iterable[str]) -> bool:
    return all(re.fullmatch(r"[0-9]+(\.[0-9]+)?", text) for text in texts)


def _bar_width(place: dict[str, float]) -> float:
    ordered = sorted(set(place.values()))
    steps = [high - low for low, high in pairwise(ordered)]
    return 0.9 * min(steps, default=0.1)
