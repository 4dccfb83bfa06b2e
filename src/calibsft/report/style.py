"""The one look of all figures, and how a figure becomes SVG text.

A transparent background, mid-grey text and Okabe-Ito colours read on light and dark pages and to colour-blind
readers. Does not know what a figure shows (`figures`), and changes no global matplotlib setting.
"""

import io
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from calibsft.text import printable

BLUE, ORANGE, GREY = "#0072B2", "#E69F00", "#757575"
VERMILLION, GREEN, PURPLE = "#D55E00", "#009E73", "#CC79A7"
STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "calibsft",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.parse_math": False,  # a label such as "$x" is a name, not a formula
    "text.color": GREY,
    "axes.labelcolor": GREY,
    "axes.edgecolor": GREY,
    "axes.titlesize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "legend.frameon": False,
    "figure.constrained_layout.wspace": 0.06,
    "figure.constrained_layout.hspace": 0.06,
}
NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))
PAGE_INCHES = 12.6
PANEL_INCHES = 4.2
PANELS_PER_ROW = 4  # even, so that a model and its counterpart after CalibSFT stay side by side
LABEL_CHARACTERS = 40


@dataclass(frozen=True, slots=True)
class Look:
    """How one of several things in a panel is drawn, so that it can be told apart without colour too."""

    label: str
    color: str
    line: str
    marker: str = ""


def grid(panels: int) -> tuple[int, int]:
    """Rows and columns for so many panels."""
    columns = min(panels, PANELS_PER_ROW)
    return -(-panels // columns), columns


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
) -> None:
    """Bars that start at `left` and touch each other but for a hairline."""
    line = {"edgecolor": "white", "linewidth": 0.5}
    ax.bar(left, height, width, bottom, align="edge", color=color, label=label, **line)


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


def svg(figure: Figure) -> str:
    """The figure as SVG with text as text; the same figure gives the same bytes."""
    buffer = io.StringIO()
    with warnings.catch_warnings():
        # The reader's browser draws the text; what matplotlib's own font lacks does not matter.
        warnings.filterwarnings("ignore", message="Glyph .* missing", category=UserWarning)
        figure.savefig(buffer, format="svg", transparent=True, metadata=NO_METADATA)
    # The document type only names a remote DTD that no reader needs.
    return re.sub(r"<!DOCTYPE[^>]*>\s*", "", buffer.getvalue())
