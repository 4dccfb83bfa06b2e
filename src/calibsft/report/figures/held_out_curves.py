"""Brier and AUROC during RL, on held-out questions."""

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from calibsft.metrics.calibration import BRIER
from calibsft.metrics.ranking import AUROC
from calibsft.report.figures.panels import look_of
from calibsft.report.figures.plot import Plot
from calibsft.report.figures.smoothing import method_curves
from calibsft.report.summary import RunSummary, TrainingRun

HELD_OUT = {metric.name: metric.title for metric in (BRIER, AUROC)}


def draw(summary: RunSummary) -> Figure | None:
    """Means over the in-distribution benchmarks; None where nothing was evaluated during training."""
    evaluated = [run for run in summary.training if len(_held_out(run))]
    return method_curves(evaluated, HELD_OUT, _evaluations) if evaluated else None


def _held_out(run: TrainingRun) -> pl.DataFrame:
    """The evaluations on in-distribution benchmarks by step; without rows where there were none."""
    return pl.DataFrame() if run.evals is None else run.evals.filter(split="id").sort("step")


def _evaluations(ax: Axes, run: TrainingRun, key: str) -> None:
    rows, look = _held_out(run), look_of(run)
    line = ax.plot(rows["step"], rows[key], color=look.color, linestyle=look.line, label=look.label)[0]
    line.set(marker=look.marker, markersize=4)


HELD_OUT_CURVES = Plot(
    "held-out-curves",
    "Held-out questions during RL",
    "Means over the in-distribution benchmarks, at the steps where the model was evaluated; lines only join the points.",
    "a training by RL that was evaluated on the way (rl.eval_every)",
    draw,
)
