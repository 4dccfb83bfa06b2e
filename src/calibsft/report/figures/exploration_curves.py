"""Distinct confidence values per question and confidence-token entropy during RL."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from calibsft.metrics.metric import one_decimal
from calibsft.report.columns import MISSING
from calibsft.report.figures.panels import LOOKS, TITLE_CHARACTERS, method_columns, pairs_of
from calibsft.report.figures.plot import Plot
from calibsft.report.figures.smoothing import SMOOTHING, STEP, smoothed
from calibsft.report.figures.style import GREEN, PURPLE, Look, share_y, shared_legend, short
from calibsft.report.summary import RunSummary, TrainingRun

VALUES = Look("distinct values per question (left axis)", GREEN, "solid")
ENTROPY = Look("confidence-token entropy in nats (right axis)", PURPLE, "dashed")


def draw(summary: RunSummary) -> Figure | None:
    """Upper panels without CalibSFT, lower panels after it, all with the same two scales; None without RL.

    There is one row of panels where the past of every training is unknown.
    """
    if not summary.training:
        return None
    pairs = pairs_of(summary.training)
    tall = len(LOOKS) if any(run.calibrated is not None for run in summary.training) else 1
    figure, columns = method_columns(len(pairs), ("values / question",) * tall, 1.9, STEP)
    left = [ax for panels in columns for ax in panels]
    right = [ax.twinx() for ax in left]
    for axes in (left, right):
        share_y(axes)
    for ax, twin, run in zip(left, right, [run for pair in pairs for run in pair.both[:tall]], strict=True):
        _panel(ax, twin, run)
    for axes in (left, right):
        axes[0].set_ylim(bottom=0)
    _label_right(right, tall)
    shared_legend(figure, [*left, *right])
    return figure


def _panel(ax: Axes, twin: Axes, run: TrainingRun | None) -> None:
    twin.spines.right.set_visible(True)
    if run is None:
        ax.text(0.5, 0.5, "not trained", ha="center", va="center", transform=ax.transAxes)
        return
    smoothed(ax, run, "distinct_values", VALUES)
    smoothed(twin, run, "confidence_entropy", ENTROPY)
    mean = MISSING if run.distinct_values is None else one_decimal(run.distinct_values)
    ax.set_title(f"{short(run.label, TITLE_CHARACTERS)}\nmean {mean} values", loc="left", fontsize="medium")


def _label_right(right: Sequence[Axes], tall: int) -> None:
    """Numbers and label of the right axis in the last column of each row of panels."""
    for place, ax in enumerate(right):
        spec = ax.get_subplotspec()
        assert spec is not None, "panels stand in a grid"
        outermost = spec.is_last_col() or place >= len(right) - tall
        ax.tick_params(labelright=outermost)
        ax.set_ylabel("entropy, nats" if outermost else "")


EXPLORATION_CURVES = Plot(
    "exploration-curves",
    "How many confidence values RL tries",
    "Left axis: distinct confidence values among the responses to one question, mean over the questions of a rollout"
    " step. Right axis: entropy of the confidence tokens. Upper row without CalibSFT, lower row after it, where that is"
    f" known; all panels on the same scales. Strong: {SMOOTHING}. RL can reward only what is sampled, but more values are not better for"
    " that alone.",
    "a training by RL with its journal",
    draw,
)
