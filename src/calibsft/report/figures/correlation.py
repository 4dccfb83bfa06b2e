"""Mean confidence against accuracy, a point per benchmark, with r and ρ; a panel per model."""

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from calibsft.metrics.correlation import pearson, spearman
from calibsft.report.columns import MISSING
from calibsft.report.figures.panels import counted, model_panels
from calibsft.report.figures.plot import Plot
from calibsft.report.figures.style import BLUE, GREEN, VERMILLION, diagonal, short
from calibsft.report.splits import ALL, part_of, split_title, splits_of
from calibsft.report.summary import ModelResult, RunSummary

TICKS = (0, 0.25, 0.5, 0.75, 1)
MARKS = ((BLUE, "o"), (VERMILLION, "^"), (GREEN, "s"))
SHORT_SPLITS = {"id": "ID", "ood": "OOD", ALL: ""}


def draw(summary: RunSummary) -> Figure | None:
    """Points on the dashed line: as sure as right. None without a model that answered several benchmarks."""
    known = [model for model in summary.models if "dataset" in model.rows.columns]
    models = [model for model in known if model.rows["dataset"].n_unique() > 1]
    if not models:
        return None
    splits = splits_of(models)
    return model_panels(models, lambda ax, model: _panel(ax, model, splits), "mean confidence", 0.95)[0]


def _panel(ax: Axes, model: ModelResult, splits: list[str]) -> None:
    diagonal(ax, 0, "as sure as right")
    lines = [short(model.label)]
    for place, split in enumerate(splits):
        means = _means(part_of(model, split))
        color, marker = MARKS[place % len(MARKS)]
        label = short(f"benchmark, {split_title(split).lower()}" if split else "benchmark")
        ax.scatter(
            means["accuracy"], means["confidence"], s=34, color=color, marker=marker, alpha=0.8, label=label
        )
        name = short(SHORT_SPLITS.get(split, split), 12)
        lines.append(f"{name}: {_correlations(means)}".removeprefix(": "))
    ax.set(xlim=(0, 1), ylim=(0, 1.02), xticks=TICKS, yticks=TICKS, xlabel="accuracy")
    ax.set_title("\n".join(lines), loc="left", fontsize="medium")


def _means(rows: pl.DataFrame) -> pl.DataFrame:
    """Mean confidence and accuracy of every benchmark, an unreadable confidence taken as 0."""
    confidence, accuracy = pl.col("confidence").mean(), pl.col("correct").mean()
    means = counted(rows).group_by("dataset").agg(confidence, accuracy=accuracy)
    # Rounded so that a model that always says the same has the same mean everywhere.
    return means.sort("dataset").with_columns(pl.col(pl.Float64).round(12))


def _correlations(means: pl.DataFrame) -> str:
    """Both coefficients over benchmarks, a dash where they are undefined."""
    sides = means["confidence"].to_list(), means["accuracy"].to_list()
    r, rho = (MISSING if value is None else f"{value:.2f}" for value in (pearson(*sides), spearman(*sides)))
    return f"r {r}, ρ {rho} ({len(means)} benchmarks)"


CORRELATION = Plot(
    "correlation",
    "Is it surer where it is more often right",
    "Each point is a benchmark: the mean of the stated confidences against the share of right answers. Above the dashed line"
    " the model is surer than it is right. r (Pearson) and ρ (Spearman) say whether it is surer on the benchmarks that it is"
    " better at, whatever the level; from a handful of benchmarks they are rough.",
    "models evaluated on two benchmarks or more (column dataset)",
    draw,
)
