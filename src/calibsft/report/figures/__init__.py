"""The figures of a report, one file each, drawn in a light and a dark theme as SVG and PNG.

To add one: a file with a `Plot`, and a line here; the page, `calibsft plot` and `calibsft ls figures` follow. Does not read
run folders or compute metrics.
"""

from collections.abc import Callable, Sequence

from calibsft.report.figures.budgets import BUDGETS
from calibsft.report.figures.calibration_curves import CALIBRATION_CURVES
from calibsft.report.figures.confidence import CONFIDENCE
from calibsft.report.figures.correlation import CORRELATION
from calibsft.report.figures.coverage import COVERAGE
from calibsft.report.figures.exploration_curves import EXPLORATION_CURVES
from calibsft.report.figures.gradient_shares import GRADIENT_SHARES
from calibsft.report.figures.held_out_curves import HELD_OUT_CURVES
from calibsft.report.figures.plot import KINDS, Plot, Shown, render, show, show_drawn
from calibsft.report.figures.reliability import RELIABILITY
from calibsft.report.figures.reliability_curve import RELIABILITY_CURVE
from calibsft.report.figures.style import THEMES
from calibsft.report.figures.targets import TARGETS
from calibsft.report.summary import RunSummary

# In the order of the page.
FIGURES: dict[str, Plot] = {
    plot.name: plot
    for plot in (
        CONFIDENCE,
        RELIABILITY,
        RELIABILITY_CURVE,
        CORRELATION,
        COVERAGE,
        BUDGETS,
        CALIBRATION_CURVES,
        EXPLORATION_CURVES,
        HELD_OUT_CURVES,
        GRADIENT_SHARES,
        TARGETS,
    )
}


def show_all(
    summary: RunSummary, kinds: Sequence[str] = tuple(KINDS), drawn: Callable[[], None] = lambda: None
) -> list[Shown]:
    """Every figure that the run has something to show for, as each of `kinds`; `drawn` is called after each."""
    shown = []
    for plot in FIGURES.values():
        shown.append(show(plot, summary, kinds))
        drawn()
    return [figure for figure in shown if figure is not None]


__all__ = ["FIGURES", "KINDS", "THEMES", "Plot", "Shown", "render", "show_all", "show_drawn"]
