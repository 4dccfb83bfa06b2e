"""What a figure is, and how it becomes SVG and PNG in each theme.

The same figure gives the same bytes. Does not know any figure (they are files beside this one, listed in the package) nor
where files go.
"""

import base64
import io
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from calibsft.report.figures.style import PAGE_COLOR, THEMES, Theme, short
from calibsft.report.summary import RunSummary

Pictures: TypeAlias = dict[str, bytes]

NO_SVG_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))
NO_PNG_METADATA = {"Software": None}
DOTS_PER_INCH = 200


@dataclass(frozen=True, slots=True)
class Plot:
    """One figure of a report.

    Attributes
    ----------
    caption : the sentences that say what to see in it.
    needs : what a run or file must hold to have this figure, for the message that it does not.
    draw : draws it under whatever theme is set; None where there is nothing to show.
    by_benchmark : whether it can be drawn of one benchmark alone.
    """

    name: str
    title: str
    caption: str
    needs: str
    draw: Callable[[RunSummary], Figure | None]
    by_benchmark: bool = False


@dataclass(frozen=True, slots=True)
class Shown:
    """A figure that was drawn: its file name, heading, caption, and its pictures by theme and kind."""

    name: str
    title: str
    caption: str
    pictures: dict[str, Pictures]

    def svg(self, theme: str = "light") -> str:
        return self.pictures[theme]["svg"].decode()

    def data_uri(self, theme: str) -> str:
        encoded = base64.b64encode(self.pictures[theme]["svg"]).decode("ascii")
        return f"data:image/svg+xml;base64,{encoded}"

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Every picture with the name of its file: NAME.svg, NAME.png, NAME-dark.svg, NAME-dark.png."""
        for theme, pictures in self.pictures.items():
            stem = self.name if theme == "light" else f"{self.name}-{theme}"
            yield from ((f"{stem}.{kind}", content) for kind, content in pictures.items())


def show(plot: Plot, summary: RunSummary, kinds: Sequence[str]) -> Shown | None:
    """The figure in all themes, as each of `kinds`; None where the run has nothing to show for it."""
    return show_drawn(plot.name, plot.title, plot.caption, partial(_draw, plot, summary), kinds)


def show_drawn(
    name: str, title: str, caption: str, draw: Callable[[], Figure | None], kinds: Sequence[str]
) -> Shown | None:
    """What `draw` draws, in all themes and as each of `kinds`; None where it draws nothing."""
    pictures = {theme: _pictures(draw, THEMES[theme], kinds) for theme in THEMES}
    drawn = {theme: found for theme, found in pictures.items() if found is not None}
    return Shown(name, title, caption, drawn) if drawn else None


def render(plot: Plot, summary: RunSummary, theme: Theme, kinds: Sequence[str]) -> Pictures | None:
    """The figure in one theme, as each of `kinds`; None where the run has nothing to show for it."""
    return _pictures(partial(_draw, plot, summary), theme, kinds)


def _draw(plot: Plot, summary: RunSummary) -> Figure | None:
    figure = plot.draw(summary)
    if figure is not None and summary.benchmark:
        figure.suptitle(short(summary.benchmark))
    return figure


def _pictures(draw: Callable[[], Figure | None], theme: Theme, kinds: Sequence[str]) -> Pictures | None:
    with matplotlib.rc_context(theme.settings), warnings.catch_warnings():
        # In an SVG the reader's browser draws the text; in a PNG a box stands for what matplotlib's font lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing", category=UserWarning)
        figure = draw()
        if figure is None:
            return None
        # Finding the layout takes as long as drawing, and it is the same for every kind.
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        return {kind: KINDS[kind](figure) for kind in kinds}


def _svg(figure: Figure) -> bytes:
    """Text as text, on no background."""
    buffer = io.BytesIO()
    figure.set_facecolor("none")
    FigureCanvasSVG(figure).print_svg(buffer, metadata=NO_SVG_METADATA)
    # The document type only names a remote DTD that no reader needs.
    return re.sub(rb"<!DOCTYPE[^>]*>\s*", b"", buffer.getvalue())


def _png(figure: Figure) -> bytes:
    """Pixels, on the colour of the theme's page."""
    buffer = io.BytesIO()
    figure.set_facecolor(matplotlib.rcParams[PAGE_COLOR])
    figure.set_dpi(DOTS_PER_INCH)
    FigureCanvasAgg(figure).print_png(buffer, metadata=NO_PNG_METADATA)
    return buffer.getvalue()


KINDS: dict[str, Callable[[Figure], bytes]] = {"svg": _svg, "png": _png}
