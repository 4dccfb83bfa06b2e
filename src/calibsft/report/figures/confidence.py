"""Confidence distribution by correctness: right and wrong answers stacked, a panel per model.

Does not count: the bars are `metrics.reliability_bins`, finer than those of ECE. Responses without a readable confidence
are left out.
"""

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from calibsft.metrics import accuracy, mean_confidence, reliability_bins
from calibsft.report.figures.panels import confidence_table, model_panels
from calibsft.report.figures.plot import Plot
from calibsft.report.figures.style import BLUE, GREY, ORANGE, bars, short
from calibsft.report.summary import ModelResult, RunSummary

BINS = 20
HATCH = "////"


def draw(summary: RunSummary) -> Figure | None:
    """Share of responses per confidence, with lines at mean confidence and accuracy; all panels on one scale."""
    return model_panels(summary.models, _panel, "share of responses", 0.76)[0] if summary.models else None


def _panel(ax: Axes, model: ModelResult) -> None:
    ax.set_title(short(model.label), loc="left")
    ax.set(xlim=(0, 1), xlabel="stated confidence")
    readable = model.rows.filter(pl.col("confidence").is_not_null())
    if readable.is_empty():
        ax.text(0.5, 0.5, "no readable confidence", ha="center", transform=ax.transAxes)
        return
    table = confidence_table(readable)
    parts = reliability_bins(table, BINS)
    left, width = [part.low for part in parts], 1 / BINS
    right = [part.count * (part.accuracy or 0) / table.responses for part in parts]
    wrong = [part.count * (1 - (part.accuracy or 0)) / table.responses for part in parts]
    bars(ax, left, right, width, BLUE, "correct")
    bars(ax, left, wrong, width, ORANGE, "incorrect", bottom=right, hatch=HATCH)
    dashes = (0, (4, 2))
    ax.axvline(mean_confidence(table), color=GREY, linestyle=dashes, linewidth=1.6, label="mean confidence")
    ax.axvline(accuracy(table), color=GREY, linewidth=1.6, label="accuracy")


CONFIDENCE = Plot(
    "confidence",
    "What the models say",
    "Share of responses at each confidence, right and wrong ones stacked. A model that knows what it knows has the"
    " wrong answers on the left. Unreadable confidences are left out.",
    "an evaluated model",
    draw,
    by_benchmark=True,
)
