"""Figures of RL as SVG text: calibration and exploration over the steps, and where the gradient goes.

One column per method; a training without CalibSFT and its counterpart after CalibSFT stand in the same column.
Does not compute metrics: what it smooths was measured during training. Does not read files (`training`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import matplotlib
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from calibsft.report.columns import MISSING, one_decimal, percent
from calibsft.report.style import (
    BLUE,
    GREEN,
    GREY,
    PURPLE,
    STYLE,
    VERMILLION,
    Look,
    grid,
    panel_width,
    share_y,
    shared_legend,
    short,
    svg,
)
from calibsft.report.summary import GradientShare, TrainingRun

LONGEST_WINDOW = 11
CURVES = {"ece": "ECE", "brier": "Brier", "auroc": "AUROC", "pass@1": "Pass@1"}
HELD_OUT = {"brier": "Brier", "auroc": "AUROC"}
LOOKS = {
    False: Look("without CalibSFT", VERMILLION, "dashed", "^"),
    True: Look("after CalibSFT", BLUE, "solid", "o"),
}
VALUES = Look("distinct values per question (left axis)", GREEN, "solid")
ENTROPY = Look("confidence-token entropy in nats (right axis)", PURPLE, "dashed")
CURVES_PER_ROW = 6
RARE = 0.001
CURVE_INCHES = 8.4
TITLE_CHARACTERS = 24


@dataclass(frozen=True, slots=True)
class Pair:
    """A method's training without CalibSFT and the one after it, None where there is no such training."""

    method: str
    runs: tuple[TrainingRun | None, TrainingRun | None]

    @property
    def title(self) -> str:
        return short(self.method, TITLE_CHARACTERS)

    @property
    def present(self) -> list[TrainingRun]:
        return [run for run in self.runs if run is not None]


def pairs_of(runs: Sequence[TrainingRun]) -> list[Pair]:
    """Trainings by method in order of appearance; a method with several of one kind fills several pairs."""
    found: list[Pair] = []
    for method in dict.fromkeys(run.method for run in runs):
        same = [run for run in runs if run.method == method]
        kinds = [[run for run in same if run.calibrated == kind] for kind in LOOKS]
        found += [Pair(method, (without, after)) for without, after in zip_longest(*kinds)]
    return found


def calibration_curves(runs: Sequence[TrainingRun]) -> str:
    """ECE, Brier, AUROC and Pass@1 of the training responses per rollout step, raw and smoothed."""
    return _method_curves(runs, CURVES, lambda ax, run, key: _smoothed(ax, run, key, LOOKS[run.calibrated]))


def held_out_curves(runs: Sequence[TrainingRun]) -> str | None:
    """Brier and AUROC on the in-distribution benchmarks at the evaluated steps; None without evaluations."""
    evaluated = [run for run in runs if len(_held_out(run))]
    return _method_curves(evaluated, HELD_OUT, _evaluations) if evaluated else None


def exploration_curves(runs: Sequence[TrainingRun]) -> str:
    """Distinct confidence values per question (left axis) and confidence-token entropy (right axis).

    Upper panels without CalibSFT, lower panels after it; all panels have the same two scales.
    """
    pairs = pairs_of(runs)
    with matplotlib.rc_context(STYLE):
        figure, columns = _curve_columns(len(pairs), ("values / question",) * len(LOOKS), 1.9)
        left = [ax for panels in columns for ax in panels]
        right = [ax.twinx() for ax in left]
        for axes in (left, right):
            share_y(axes)
        for ax, twin, run in zip(left, right, [run for pair in pairs for run in pair.runs], strict=True):
            _exploration_panel(ax, twin, run)
        for axes in (left, right):
            axes[0].set_ylim(bottom=0)
        _label_right(right, len(pairs))
        shared_legend(figure, [*left, *right])
        return svg(figure)


def gradient_shares(shares: Sequence[GradientShare]) -> str:
    """Each confidence value's share of the gradient against its probability, on log scales; a panel per model."""
    with matplotlib.rc_context(STYLE):
        tall, wide = grid(len(shares))
        width = panel_width(wide)
        figure = Figure(figsize=(width * wide, 0.9 * width * tall + 0.3), layout="constrained")
        axes = list(figure.subplots(tall, wide, sharex=True, sharey=True, squeeze=False).flat)
        for ax, share in zip(axes, shares, strict=False):
            _gradient_panel(ax, share, _smallest_share(shares))
        for ax in axes[::wide]:
            ax.set_ylabel("share of the gradient")
        for ax in axes[max(len(shares) - wide, 0) : len(shares)]:
            ax.tick_params(labelbottom=True)
        for ax in axes[len(shares) :]:
            ax.set_visible(False)
        # The panels share their axes, and every change to a log scale would undo this.
        for axis in (axes[0].xaxis, axes[0].yaxis):
            axis.set_major_locator(LogLocator(numticks=5))
            axis.set_major_formatter(lambda value, _: f"{value:.0e}".replace("e-0", "e-").replace("e+00", ""))
            axis.set_minor_locator(NullLocator())
        shared_legend(figure, axes)
        return svg(figure)


def _method_curves(
    runs: Sequence[TrainingRun], titles: dict[str, str], draw: Callable[[Axes, TrainingRun, str], None]
) -> str:
    """One row of panels per metric of `titles`, one column per method, each row on one scale."""
    pairs = pairs_of(runs)
    with matplotlib.rc_context(STYLE):
        figure, columns = _curve_columns(len(pairs), tuple(titles.values()), 1.6)
        for row in zip(*columns, strict=True):
            share_y(row)
        for pair, panels in zip(pairs, columns, strict=True):
            panels[0].set_title(pair.title, loc="left")
            for ax, key in zip(panels, titles, strict=True):
                for run in pair.present:
                    draw(ax, run, key)
        shared_legend(figure, [ax for panels in columns for ax in panels])
        return svg(figure)


def _curve_columns(count: int, y_labels: Sequence[str], height: float) -> tuple[Figure, list[list[Axes]]]:
    """A figure with `count` columns of panels, wrapped to the page; labels and numbers only at its edges."""
    wide, tall = _side_by_side(count, CURVES_PER_ROW), len(y_labels)
    blocks = -(-count // wide)
    size = (panel_width(wide, CURVE_INCHES) * wide, height * tall * blocks + 0.6)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(tall * blocks, wide, squeeze=False)
    columns = [list(axes[top : top + tall, x]) for top in range(0, tall * blocks, tall) for x in range(wide)]
    for place, panels in enumerate(columns):
        for ax, label in zip(panels, y_labels, strict=True):
            ax.set_visible(place < count)
            if ax is not panels[0]:
                ax.sharex(panels[0])
            ax.tick_params(labelleft=place % wide == 0, labelbottom=ax is panels[-1])
            ax.set_ylabel(label if place % wide == 0 else "")
        panels[-1].set_xlabel("rollout step")
    return figure, columns[:count]


def _side_by_side(count: int, most: int) -> int:
    """How many of `count` panels stand in a row so that no row has more than `most` and all are about full."""
    return -(-count // -(-count // most))


def _smoothed(ax: Axes, run: TrainingRun, key: str, look: Look) -> None:
    """A strong line through the rolling mean over a faint one through every step."""
    steps, values, color = run.steps["step"], run.steps[key], look.color
    smooth = values.rolling_mean(window(len(steps)), min_samples=1, center=True)
    ax.plot(steps, values, color=color, linewidth=0.7, alpha=0.3)
    ax.plot(steps, smooth, color=color, linestyle=look.line, linewidth=1.8, label=look.label)


def window(steps: int) -> int:
    """Over how many steps a curve is smoothed: about a tenth of them, odd to be centred, and at most 11."""
    return min(LONGEST_WINDOW, steps // 10 // 2 * 2 + 1)


def _held_out(run: TrainingRun) -> pl.DataFrame:
    """The evaluations on in-distribution benchmarks by step; without rows where there were none."""
    return pl.DataFrame() if run.evals is None else run.evals.filter(split="id").sort("step")


def _evaluations(ax: Axes, run: TrainingRun, key: str) -> None:
    rows, look = _held_out(run), LOOKS[run.calibrated]
    line = ax.plot(rows["step"], rows[key], color=look.color, linestyle=look.line, label=look.label)[0]
    line.set(marker=look.marker, markersize=4)


def _exploration_panel(ax: Axes, twin: Axes, run: TrainingRun | None) -> None:
    twin.spines.right.set_visible(True)
    if run is None:
        ax.text(0.5, 0.5, "not trained", ha="center", va="center", transform=ax.transAxes)
        return
    _smoothed(ax, run, "distinct_values", VALUES)
    _smoothed(twin, run, "confidence_entropy", ENTROPY)
    mean = MISSING if run.distinct_values is None else one_decimal(run.distinct_values)
    ax.set_title(f"{short(run.label, TITLE_CHARACTERS)}\nmean {mean} values", loc="left", fontsize="medium")


def _label_right(right: Sequence[Axes], columns: int) -> None:
    """Numbers and label of the right axis in the last column of each row of panels."""
    wide = _side_by_side(columns, CURVES_PER_ROW)
    for place, ax in enumerate(right):
        column = place // len(LOOKS)
        outermost = column % wide == wide - 1 or column == columns - 1
        ax.tick_params(labelright=outermost)
        ax.set_ylabel("entropy, nats" if outermost else "")


def _gradient_panel(ax: Axes, share: GradientShare, smallest: float) -> None:
    values = share.values
    rare = values.filter(pl.col("probability") < RARE)
    learnt = percent(float(rare["gradient_share"].sum()))
    together = f"{len(rare)} of {len(values)} values below {percent(RARE)}:\n{learnt} of the gradient"
    ax.set_title(f"{short(share.label)}\n{together}", loc="left", fontsize="medium")
    ax.set(xscale="log", yscale="log", xlabel="probability of the value")
    ax.plot([smallest, 1], [smallest, 1], "--", color=GREY, linewidth=1, label="equal share")
    drawn = values.filter((pl.col("gradient_share") > 0) & (pl.col("probability") > 0))
    x, y = drawn["probability"], drawn["gradient_share"]
    ax.scatter(x, y, s=22, color=BLUE, alpha=0.7, linewidths=0, label="one confidence value")


def _smallest_share(shares: Sequence[GradientShare]) -> float:
    columns = [share.values[name] for share in shares for name in ("probability", "gradient_share")]
    return min((value for column in columns for value in column if value), default=0.01)
