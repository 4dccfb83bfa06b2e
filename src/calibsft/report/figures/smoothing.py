"""Curves over the steps of RL: a rolling mean over every step, and one row of panels per metric."""

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from calibsft.report.figures.panels import method_columns, pairs_of
from calibsft.report.figures.style import Look, share_y, shared_legend
from calibsft.report.summary import TrainingRun

LONGEST_WINDOW = 11
SMOOTHING = f"rolling mean over about a tenth of the steps, at most {LONGEST_WINDOW}, centred"
STEP = "rollout step"


def method_curves(
    runs: Sequence[TrainingRun], titles: dict[str, str], draw: Callable[[Axes, TrainingRun, str], None]
) -> Figure:
    """One row of panels per metric of `titles`, one column per method, each row on one scale."""
    pairs = pairs_of(runs)
    figure, columns = method_columns(len(pairs), tuple(titles.values()), 1.6, STEP)
    for row in zip(*columns, strict=True):
        share_y(row)
    for pair, panels in zip(pairs, columns, strict=True):
        panels[0].set_title(pair.title, loc="left")
        for ax, key in zip(panels, titles, strict=True):
            for run in pair.present:
                draw(ax, run, key)
    shared_legend(figure, [ax for panels in columns for ax in panels])
    return figure


def smoothed(ax: Axes, run: TrainingRun, key: str, look: Look) -> None:
    """A strong line through the rolling mean over a faint one through every step."""
    steps, values, color = run.steps["step"], run.steps[key], look.color
    smooth = values.rolling_mean(window(len(steps)), min_samples=1, center=True)
    ax.plot(steps, values, color=color, linewidth=0.7, alpha=0.3)
    ax.plot(steps, smooth, color=color, linestyle=look.line, linewidth=1.8, label=look.label)


def window(steps: int) -> int:
    """Over how many steps a curve is smoothed: about a tenth of them, odd to be centred, and at most 11."""
    return min(LONGEST_WINDOW, steps // 10 // 2 * 2 + 1)
