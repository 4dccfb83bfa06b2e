"""Each confidence value's share of the gradient against its probability, before RL."""

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from calibsft.metrics.metric import percent
from calibsft.prior.gradient import RARE
from calibsft.report.columns import whole
from calibsft.report.figures.panels import model_panels
from calibsft.report.figures.plot import Plot
from calibsft.report.figures.style import BLUE, diagonal, grid, short
from calibsft.report.summary import GradientShare, RunSummary


def draw(summary: RunSummary) -> Figure | None:
    """All panels on the same log scales; None where no gradient was measured."""
    shares = summary.gradients
    if not shares:
        return None
    columns = [share.values[name] for share in shares for name in ("probability", "gradient_share")]
    smallest = min((value for column in columns for value in column if value), default=0.01)
    figure, axes = model_panels(
        shares, lambda ax, share: _panel(ax, share, smallest), "share of the gradient", 0.9, sharex=True
    )
    for ax in axes[-grid(len(shares))[1] :]:
        ax.tick_params(labelbottom=True)
    # The panels share their axes, and every change to a log scale would undo this.
    for axis in (axes[0].xaxis, axes[0].yaxis):
        axis.set_major_locator(LogLocator(numticks=5))
        axis.set_major_formatter(lambda value, _: f"{value:.0e}".replace("e-0", "e-").replace("e+00", ""))
        axis.set_minor_locator(NullLocator())
    return figure


def _panel(ax: Axes, share: GradientShare, smallest: float) -> None:
    values = share.values
    rare = values.filter(pl.col("probability") < RARE)
    learnt = percent(float(rare["gradient_share"].sum()))
    together = f"{len(rare)} of {len(values)} values below {percent(RARE)}:\n{learnt} of the gradient"
    ax.set_title(f"{short(share.label)}\n{together}", loc="left", fontsize="medium")
    ax.set(xscale="log", yscale="log", xlabel=f"probability, mean over {whole(share.contexts)} responses")
    diagonal(ax, smallest, "equal share")
    drawn = values.filter((pl.col("gradient_share") > 0) & (pl.col("probability") > 0))
    x, y = drawn["probability"], drawn["gradient_share"]
    ax.scatter(x, y, s=22, color=BLUE, alpha=0.7, linewidths=0, label="one confidence value")


GRADIENT_SHARES = Plot(
    "gradient-shares",
    "Which confidence values get a gradient",
    "Measured on the models that RL starts from, before any training. Each point is a confidence value of the format: how"
    " likely the model is to state it, and the length of its part of the expected gradient of the Brier reward in the"
    " weights, as a share of all. On the dashed line the two are equal: what is hardly ever said hardly learns"
    " (Proposition 1 of the paper).",
    "the prior of a model that RL starts from (prior.contexts)",
    draw,
)
