"""The one look of all figures, in two themes: colours, sizes, and the parts that several figures share.

Okabe-Ito colours, lighter on dark pages, are safe for colour-blind readers; markers, line styles and hatches
distinguish things without colour. A theme is data: figures name colours (`BLUE`) and never see which theme they are
drawn in. Does not know what a figure shows, and changes no global matplotlib setting.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import matplotlib
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from calibsft.text import printable

# Places in a theme's palette: matplotlib looks the colour up while a figure is drawn.
BLUE, ORANGE, VERMILLION, GREEN, PURPLE, GREY = "C0", "C1", "C2", "C3", "C4", "C5"
STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "calibsft",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.parse_math": False,  # a label such as "$x" is a name, not a formula
    "axes.titlesize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "hatch.linewidth": 0.8,
    "legend.frameon": False,
    "figure.constrained_layout.wspace": 0.06,
    "figure.constrained_layout.hspace": 0.06,
}
# The settings that hold the colours of text and page.
TEXT = ("text.color", "axes.labelcolor", "axes.titlecolor", "axes.edgecolor", "xtick.color", "ytick.color")
PAGE_COLOR = "savefig.facecolor"
PAGE_INCHES = 12.6
PANEL_INCHES = 4.2
PANELS_PER_ROW = 4  # even, so that a model and its counterpart after CalibSFT stay side by side
LABEL_CHARACTERS = 40


@dataclass(frozen=True, slots=True)
class Theme:
    """The colours of a figure: those of the page that it is made for, of its text, and of what it shows.

    `palette` is in the order of the names above: blue, orange, vermillion, green, purple, grey.
    """

    page: str
    text: str
    palette: tuple[str, str, str, str, str, str]

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of matplotlib while a figure is drawn and saved."""
        colours = dict.fromkeys(TEXT, self.text) | {PAGE_COLOR: self.page}
        return {**STYLE, **colours, "axes.prop_cycle": cycler(color=self.palette)}


LIGHT = Theme("#ffffff", "#4b5157", ("#0072B2", "#C98500", "#D55E00", "#009E73", "#CC79A7", "#757575"))
DARK = Theme("#15181c", "#c3c9d0", ("#56B4E9", "#E69F00", "#EE7733", "#2DBE94", "#DD98BE", "#9aa1a9"))
THEMES = {"light": LIGHT, "dark": DARK}


@dataclass(frozen=True, slots=True)
class Look:
    """How one of several things in a panel is drawn: distinguishable without colour too."""

    label: str
    color: str
    line: str
    marker: str = ""


def grid(panels: int) -> tuple[int, int, float]:
    """Rows and columns for so many panels, and the inches of one."""
    columns = min(panels, PANELS_PER_ROW)
    return -(-panels // columns), columns, panel_width(columns)


def panel_width(columns: int, widest: float = PANEL_INCHES) -> float:
    """Inches of one of so many panels side by side: together they are never wider than the page."""
    return min(widest, PAGE_INCHES / columns)


def bars(
    ax: Axes,
    left: list[float],
    height: list[float],
    width: float,
    color: str,
    label: str = "",
    bottom: list[float] | Literal[0] = 0,
    hatch: str = "",
) -> None:
    """Bars that start at `left`, with a hairline between them; a hatch is cut out of them."""
    line = {"edgecolor": matplotlib.rcParams[PAGE_COLOR], "linewidth": 0.5}
    ax.bar(left, height, width, bottom, align="edge", color=color, label=label, hatch=hatch, **line)


def diagonal(ax: Axes, low: float, label: str) -> None:
    """The dashed line on which both axes are equal, from `low` to 1, visible on bars and points too."""
    halo = withStroke(linewidth=2.6, foreground=matplotlib.rcParams[PAGE_COLOR], alpha=0.7)
    line = ax.plot([low, 1], [low, 1], color=GREY, linestyle="dashed", linewidth=1.2, label=label)[0]
    line.set(path_effects=[halo], zorder=2.5)


def share_y(axes: Sequence[Axes]) -> None:
    """One vertical scale for all of them."""
    for ax in axes[1:]:
        ax.sharey(axes[0])


def shared_legend(figure: Figure, axes: Iterable[Axes]) -> None:
    """One legend below the panels that explains each label once."""
    found: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    if found:
        entry_inches = 0.6 + 0.075 * max(len(label) for label in found)
        columns = max(1, min(len(found), int(figure.get_figwidth() / entry_inches)))
        figure.legend(list(found.values()), list(found), loc="outside lower center", ncols=columns)


def short(text: str, characters: int = LABEL_CHARACTERS) -> str:
    """A label that fits a panel and holds nothing invisible."""
    text = printable(text)
    return text if len(text) <= characters else f"{text[: characters - 1]}…"
