"""CORP reliability diagram: recalibrated against stated confidence, a panel per model.

After Dimitriadis, Gneiting and Jordan (2021). Does not compute metrics: curve, band and numbers
come from `metrics`. The curve and the numbers are of all responses. The band is of one response to
each question, since responses to one question may all err together; it is then at least as wide as
the curve of all responses needs.
"""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from calibsft.metrics import (
    accuracy,
    discrimination,
    mean_confidence,
    miscalibration,
    recalibrated,
    reliability_bins,
    uncertainty,
)
from calibsft.metrics.calibrated_outcomes import BAND_LEVEL, consistency_band
from calibsft.metrics.calibration_check import one_response_each
from calibsft.metrics.metric import fraction
from calibsft.report.figures.panels import confidence_table, counted, diagrams
from calibsft.report.figures.plot import Plot
from calibsft.report.figures.style import BLUE, GREY, bars, diagonal, short
from calibsft.report.summary import ModelResult, RunSummary

BINS = 20
MOST_MARKS = 40
# The band of a single confidence would have no width.
OVERHANG = 0.01
PARTS = {"MCB": miscalibration, "DSC": discrimination, "UNC": uncertainty}


def draw(summary: RunSummary) -> Figure | None:
    """Recalibrated against stated confidence (CORP), and where it would be by chance.

    An unreadable confidence counts as 0, as in the tables, and is left out of the band.
    """
    return diagrams(summary.models, _panel) if summary.models else None


def _panel(upper: Axes, lower: Axes, model: ModelResult) -> None:
    table = confidence_table(counted(model.rows))
    _band(upper, model)
    diagonal(upper, 0, "perfectly calibrated")
    every = -(-len(table.values) // MOST_MARKS)
    marks: dict[str, Any] = {"marker": "o", "markersize": 3.5, "markevery": every, "clip_on": False}
    upper.plot(table.values, recalibrated(table), color=BLUE, label="recalibrated confidence", **marks)
    numbers = "\n".join(f"{name} {fraction(of(table))}" for name, of in PARTS.items())
    # In the corner that the curve does not come near: of a model too sure it is below the diagonal.
    unsure = accuracy(table) > mean_confidence(table)
    x, y, ha, va = (0.97, 0.03, "right", "bottom") if unsure else (0.03, 0.97, "left", "top")
    upper.text(x, y, numbers, ha=ha, va=va, transform=upper.transAxes)
    upper.set_ylabel("recalibrated confidence")
    upper.set_title(short(model.label), loc="left")
    parts = reliability_bins(table, BINS)
    bars(lower, [part.low for part in parts], [part.count for part in parts], 1 / BINS, GREY)


def _band(ax: Axes, model: ModelResult) -> None:
    """Where the curve of calibrated confidences would be, with one response to each question."""
    readable = model.rows.drop_nulls("confidence")
    if readable.is_empty():
        return
    stated, low, high = consistency_band(confidence_table(one_response_each(readable)))
    ends = [stated[0] - OVERHANG, *stated, stated[-1] + OVERHANG]
    lower, upper = ([band[0], *band, band[-1]] for band in (low, high))
    label = f"if calibrated, in {BAND_LEVEL:.0%} of draws"
    ax.fill_between(ends, lower, upper, color=GREY, alpha=0.3, linewidth=0, label=label)


RELIABILITY_CURVE = Plot(
    "reliability-curve",
    "Is it as often right as it says, without bins",
    "The confidence that would fit the responses best, if it may only rise with the stated one (CORP"
    " reliability diagram), all benchmarks together. In the grey band it may differ from the dashed line"
    " by chance. Brier = MCB − DSC + UNC: miscalibration, discrimination, and how hard it is to know"
    " what is right. Below: how often each confidence is stated.",
    "an evaluated model",
    draw,
    by_benchmark=True,
)
