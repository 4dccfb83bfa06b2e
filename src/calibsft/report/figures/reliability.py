"""Reliability diagram: accuracy in the bins of ECE, with counts, a panel per model.

Does not compute metrics: bars and the ECE in the title come from the same `metrics.reliability_bins`.
"""

from matplotlib import rcParams
from matplotlib.figure import Figure, SubFigure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from calibsft.metrics import expected_calibration_error, reliability_bins
from calibsft.metrics.metric import fraction
from calibsft.report.figures.panels import confidence_table, counted
from calibsft.report.figures.plot import Plot
from calibsft.report.figures.style import BLUE, GREY, ORANGE, bars, diagonal, grid, shared_legend, short
from calibsft.report.summary import ModelResult, RunSummary

TICKS = (0, 0.25, 0.5, 0.75, 1)


def draw(summary: RunSummary) -> Figure | None:
    """Accuracy per bin against the diagonal, with the number of responses below; all benchmarks together.

    An unreadable confidence counts as 0 here, as in the tables, so the ECE shown is their pooled ECE, or that of the one
    benchmark that is drawn.
    """
    if not summary.models:
        return None
    rows, columns, width = grid(len(summary.models))
    # The space between the two axes of a panel is measured as a share of the whole figure.
    layout = ConstrainedLayoutEngine(hspace=rcParams["figure.constrained_layout.hspace"] / rows)
    figure = Figure(figsize=(width * columns, 1.1 * width * rows + 0.3), layout=layout)
    panels = figure.subfigures(rows, columns, squeeze=False).flat
    ece = "ECE" if summary.benchmark else "pooled ECE"
    for panel, model in zip(panels, summary.models, strict=False):
        _panel(panel, model, ece)
    shared_legend(figure, figure.axes)
    return figure


def _panel(panel: SubFigure, model: ModelResult, ece_name: str) -> None:
    upper, lower = panel.subplots(2, 1, sharex=True, height_ratios=(5, 2))
    table = confidence_table(counted(model.rows))
    parts = [part for part in reliability_bins(table) if part.count]
    left = [part.low for part in parts]
    bars(upper, left, [part.accuracy or 0 for part in parts], 0.1, BLUE, "accuracy in the bin")
    diagonal(upper, 0, "perfectly calibrated")
    for part in parts:
        # from what was said to how often it was right
        said, right = part.confidence or 0.0, part.accuracy or 0.0
        label = "gap to the mean confidence" if part is parts[0] else None
        upper.plot([said, said], [said, right], color=ORANGE, linewidth=2.5, clip_on=False, label=label)
    upper.set(xlim=(0, 1), ylim=(0, 1.02), yticks=TICKS, ylabel="accuracy")
    ece = fraction(expected_calibration_error(table))
    upper.set_title(f"{short(model.label)}\n{ece_name} {ece}", loc="left")
    bars(lower, left, [part.count for part in parts], 0.1, GREY)
    lower.set(xlabel="stated confidence", ylabel="count", xticks=TICKS)


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
