"""Reliability diagram: accuracy in the bins of ECE, with counts, a panel per model.

Does not compute metrics: bars and the ECE in the title come from the same `metrics.reliability_bins`.
"""

from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from calibsft.metrics import expected_calibration_error, reliability_bins
from calibsft.metrics.metric import fraction
from calibsft.report.figures.panels import confidence_table, counted, diagrams
from calibsft.report.figures.plot import Plot
from calibsft.report.figures.style import BLUE, GREY, ORANGE, bars, diagonal, short
from calibsft.report.summary import ModelResult, RunSummary


def draw(summary: RunSummary) -> Figure | None:
    """Accuracy per bin against the diagonal, with the number of responses below; all benchmarks together.

    An unreadable confidence counts as 0 here, as in the tables, so the ECE shown is their pooled ECE, or that of the one
    benchmark that is drawn.
    """
    if not summary.models:
        return None
    ece = "ECE" if summary.benchmark else "pooled ECE"
    return diagrams(summary.models, partial(_panel, ece_name=ece))


def _panel(upper: Axes, lower: Axes, model: ModelResult, ece_name: str) -> None:
    table = confidence_table(counted(model.rows))
    parts = [part for part in reliability_bins(table) if part.count]
    left = [part.low for part in parts]
    bars(upper, left, [part.accuracy or 0 for part in parts], 0.1, BLUE, "accuracy in the bin")
    diagonal(upper, 0, "perfectly calibrated")
    for part in parts:
        # from what was said to how often it was right
        stated, right = part.confidence or 0.0, part.accuracy or 0.0
        label = "gap to the mean confidence" if part is parts[0] else None
        upper.plot([stated, stated], [stated, right], color=ORANGE, linewidth=2.5, clip_on=False, label=label)
    upper.set_ylabel("accuracy")
    ece = fraction(expected_calibration_error(table))
    upper.set_title(f"{short(model.label)}\n{ece_name} {ece}", loc="left")
    bars(lower, left, [part.count for part in parts], 0.1, GREY)


RELIABILITY = Plot(
    "reliability",
    "Is it as often right as it says",
    "Accuracy of the responses in each confidence bin, all benchmarks together; on the dashed line confidence and"
    " accuracy agree. Bins with few responses (lower panel) are uncertain. calibsft plot reliability draws a single benchmark"
    " with --benchmark NAME.",
    "an evaluated model",
    draw,
    by_benchmark=True,
)
