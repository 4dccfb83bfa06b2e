"""ECE, Brier, AUROC and Pass@1 during RL, on the training responses of every step."""

from matplotlib.figure import Figure

from calibsft.metrics.calibration import ACCURACY, BRIER, ECE
from calibsft.metrics.ranking import AUROC
from calibsft.report.figures.plot import Plot
from calibsft.report.figures.smoothing import SMOOTHING, method_curves, smoothed
from calibsft.report.summary import RunSummary

CURVES = {metric.name: metric.title for metric in (ECE, BRIER, AUROC, ACCURACY)}


def draw(summary: RunSummary) -> Figure | None:
    """Every step and its rolling mean; None for a run without RL."""
    return method_curves(summary.training, CURVES, smoothed) if summary.training else None


CALIBRATION_CURVES = Plot(
    "calibration-curves",
    "Calibration during RL",
    "Measured at each rollout step on the responses generated for training, not on held-out questions. Faint: every"
    f" step; strong: {SMOOTHING}.",
    "a training by RL with its journal",
    draw,
)
