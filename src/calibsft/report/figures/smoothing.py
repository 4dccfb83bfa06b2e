"""Curves over the steps of RL: a rolling mean over every step, and one row of panels per metric."""

from collections.abc import Callable, Sequence
from itertools import chain

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from calibsft.report.figures.panels import group_panels, look_of, pairs_of
from calibsft.report.figures.style import Look, shared_legend
from calibsft.report.summary import TrainingRun

LONGEST_WINDOW = 11
SMOOTHING = f"rolling mean over about a tenth of the steps, at most {LONGEST_WINDOW}, centred"
STEP = "rollout step"


def method_curves(
    runs: Sequence[TrainingRun], titles: dict[str, str], draw: Callable[[Axes, TrainingRun, str], None]
) -> Figure:
    """One row of panels per metric of `titles`, one column per method, each row on one scale."""
    groups = [(pair.title, pair.present) for pair in pairs_of(runs)]
    figure, columns = group_panels(groups, titles, draw, 1.6, STEP)
    shared_legend(figure, chain.from_iterable(columns))
    return figure


def smoothed(ax: Axes, run: TrainingRun, key: str, look: Look | None = None) -> None:
    """A strong line through the rolling mean over a faint one through every step."""
    look = look or look_of(run)
    steps, values, color = run.steps["step"], run.steps[key], look.color
    smooth = values.rolling_mean(window(len(steps)), min_samples=1, center=True)
    ax.plot(steps, values, color=color, linewidth=0.7, alpha=0.3)
    ax.plot(steps, smooth, color=color, linestyle=look.line, linewidth=1.8, label=look.label)


def window(steps: int) -> int:
    """Over how many steps a curve is smoothed: about a tenth of them, odd to be centred, and at most 11."""
    return min(LONGEST_WINDOW, steps // 10 // 2 * 2 + 1)
