"""What figures with panels share: one panel per model, columns per method, and the rows that they count.

A model without CalibSFT and its counterpart after CalibSFT stand in one column, each in its own look. Does not know
what is in a panel.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Generic, NamedTuple, TypeVar

import polars as pl
from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from calibsft.artifacts.lineage import WARMUP
from calibsft.metrics import ConfidenceTable
from calibsft.report.figures.style import (
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    VERMILLION,
    Look,
    grid,
    panel_width,
    share_y,
    shared_legend,
    short,
)
from calibsft.report.lineage import step_title
from calibsft.report.summary import ModelResult, TrainingRun

Trained = TypeVar("Trained", TrainingRun, ModelResult)
Shown = TypeVar("Shown")

LOOKS = {
    False: Look("without CalibSFT", VERMILLION, "dashed", "^"),
    True: Look("after CalibSFT", BLUE, "solid", "o"),
}
# For a training without a known past: CalibSFT may have come before it.
UNKNOWN = Look("the model in training", GREEN, "dashdot", "s")
# Colour, line style and marker of unrelated models, such as files side by side.
UNRELATED = (
    (BLUE, "solid", "o"),
    (VERMILLION, "dashed", "^"),
    (GREEN, "dashdot", "s"),
    (PURPLE, "solid", "D"),
    (ORANGE, "dashed", "v"),
)
DIAGRAM_TICKS = (0, 0.25, 0.5, 0.75, 1)
COLUMNS_PER_ROW = 6
COLUMN_INCHES = 8.4
TITLE_CHARACTERS = 24


@dataclass(frozen=True, slots=True)
class Pair(Generic[Trained]):
    """What a method made without CalibSFT, and what it made after CalibSFT; None where there is none."""

    method: str
    both: tuple[Trained | None, Trained | None]
    seed: int | None = None

    @property
    def title(self) -> str:
        seed = "" if self.seed is None else f", seed {self.seed}"
        return short(f"{self.method}{seed}" if self.method else self.present[0].label, TITLE_CHARACTERS)

    @property
    def present(self) -> list[Trained]:
        return [one for one in self.both if one is not None]


def pairs_of(found: Sequence[Trained]) -> list[Pair[Trained]]:
    """Trainings or models by warm-up, method and seed in order of appearance; several of a kind fill several pairs."""
    kinds_of: dict[tuple[bool, str, int | None], tuple[list[Trained], list[Trained]]] = {}
    for one in found:
        # Before RL there is one base model for all seeds.
        key = one.warmed_up, one.method, one.seed if one.method else None
        kinds_of.setdefault(key, ([], []))[bool(one.calibrated)].append(one)
    return [
        Pair(f"{step_title(WARMUP)}→{method}" if warmed_up and method else method, (without, after), seed)
        for (warmed_up, method, seed), kinds in kinds_of.items()
        for without, after in zip_longest(*kinds)
    ]


def look_of(run: TrainingRun) -> Look:
    return UNKNOWN if run.calibrated is None else LOOKS[run.calibrated]


class Group(NamedTuple):
    """Models that are drawn into the same panels, each with its look."""

    title: str
    members: Sequence[tuple[Look, ModelResult]]


def groups_of(models: Sequence[ModelResult]) -> list[Group]:
    """Pair models by method; models of unknown origin share one group of at most five.

    More than five cannot be distinguished in one panel: then each is a group of its own.
    """
    if any(model.calibrated is not None for model in models):
        return [
            Group(pair.title, tuple((LOOKS[bool(model.calibrated)], model) for model in pair.present))
            for pair in pairs_of(models)
        ]
    if len(models) > len(UNRELATED):
        alone = Look("the model", *UNRELATED[0])
        return [Group(short(model.label, TITLE_CHARACTERS), ((alone, model),)) for model in models]
    looks = [Look(name, *look) for name, look in zip(_names(models), UNRELATED, strict=False)]
    return [Group("", tuple(zip(looks, models, strict=True)))]


def _names(models: Sequence[ModelResult]) -> list[str]:
    """Labels for a legend, numbered where two are shortened to the same text."""
    names = [short(model.label) for model in models]
    # matplotlib leaves labels that begin with "_" out of a legend
    if len(set(names)) < len(names) or any(name.startswith("_") for name in names):
        return [f"{number}. {name}" for number, name in enumerate(names, start=1)]
    return names


def model_panels(
    shown: Sequence[Shown],
    draw: Callable[[Axes, Shown], None],
    y_label: str,
    height: float,
    sharex: bool = False,
) -> tuple[Figure, list[Axes]]:
    """A panel for each of `shown` in a grid on one vertical scale, `height` times as high as wide, and one legend."""
    rows, columns, width = grid(len(shown))
    figure = Figure(figsize=(width * columns, height * width * rows + 0.3), layout="constrained")
    axes = list(figure.subplots(rows, columns, sharex=sharex, sharey=True, squeeze=False).flat)
    for ax in axes[::columns]:
        ax.set_ylabel(y_label)
    for ax in axes[len(shown) :]:
        ax.set_visible(False)
    for ax, one in zip(axes, shown, strict=False):
        draw(ax, one)
    shared_legend(figure, axes)
    return figure, axes[: len(shown)]


def diagrams(models: Sequence[ModelResult], draw: Callable[[Axes, Axes, ModelResult], None]) -> Figure:
    """A diagram per model over stated confidence: a share above, counts below, and one legend."""
    rows, columns, width = grid(len(models))
    # The space between the two axes of a panel is measured as a share of the whole figure.
    layout = ConstrainedLayoutEngine(hspace=rcParams["figure.constrained_layout.hspace"] / rows)
    figure = Figure(figsize=(width * columns, 1.1 * width * rows + 0.3), layout=layout)
    panels = figure.subfigures(rows, columns, squeeze=False).flat
    for panel, model in zip(panels, models, strict=False):
        upper, lower = panel.subplots(2, 1, sharex=True, height_ratios=(5, 2))
        draw(upper, lower, model)
        upper.set(xlim=(0, 1), ylim=(0, 1.02), yticks=DIAGRAM_TICKS)
        lower.set(xlabel="stated confidence", ylabel="count", xticks=DIAGRAM_TICKS)
    shared_legend(figure, figure.axes)
    return figure


def group_panels(
    groups: Sequence[tuple[str, Sequence[Shown]]],
    rows: Mapping[str, str],
    draw: Callable[[Axes, Shown, str], None],
    height: float,
    x_label: str,
) -> tuple[Figure, list[list[Axes]]]:
    """A column for each group, by its title, and a row on one scale for each key of `rows`, by its label."""
    figure, columns = method_columns(len(groups), tuple(rows.values()), height, x_label)
    for row in zip(*columns, strict=True):
        share_y(row)
    for (title, members), panels in zip(groups, columns, strict=True):
        panels[0].set_title(title, loc="left")
        for ax, key in zip(panels, rows, strict=True):
            for member in members:
                draw(ax, member, key)
    return figure, columns


def method_columns(
    count: int, y_labels: Sequence[str], height: float, x_label: str
) -> tuple[Figure, list[list[Axes]]]:
    """A figure with `count` columns of empty panels, wrapped to the page; labels and numbers only at its edges."""
    blocks, tall = -(-count // COLUMNS_PER_ROW), len(y_labels)
    wide = -(-count // blocks)  # so that all rows of columns are about equally full
    size = (panel_width(wide, COLUMN_INCHES) * wide, height * tall * blocks + 0.6)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(tall * blocks, wide, squeeze=False)
    columns = [list(axes[top : top + tall, x]) for top in range(0, tall * blocks, tall) for x in range(wide)]
    for place, panels in enumerate(columns):
        for ax, label in zip(panels, y_labels, strict=True):
            ax.set_visible(place < count)
            if ax is not panels[0]:
                ax.sharex(panels[0])
            ax.tick_params(labelleft=place % wide == 0, labelbottom=ax is panels[-1])
            ax.set_ylabel(label if place % wide == 0 else "")
        panels[-1].set_xlabel(x_label)
    return figure, columns[:count]


def counted(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with an unreadable confidence taken as 0, as in the tables."""
    return rows.with_columns(pl.col("confidence").fill_null(0.0))


def confidence_table(rows: pl.DataFrame) -> ConfidenceTable:
    return ConfidenceTable.from_rows(rows["confidence"].to_numpy(), rows["correct"].to_numpy())
