"""One figure of runs, evaluations or files, as a picture file."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from calibsft.artifacts import write_bytes
from calibsft.errors import InputError, unknown_name
from calibsft.files.dialect import OURS, Dialect
from calibsft.metrics.files import EVERYTHING
from calibsft.metrics.selection import Where
from calibsft.report.figures import FIGURES, KINDS, THEMES, render
from calibsft.report.sources import only_benchmark, read_sources


@dataclass(frozen=True, slots=True)
class Picture(os.PathLike[str]):
    """A picture in a file; as the last value of a cell, a notebook shows it."""

    path: Path

    def __fspath__(self) -> str:
        return str(self.path)

    def __str__(self) -> str:
        return str(self.path)

    def _repr_png_(self) -> bytes | None:
        return self.path.read_bytes() if self.path.suffix.lower() == ".png" else None

    def _repr_svg_(self) -> str | None:
        return self.path.read_text(encoding="utf-8") if self.path.suffix.lower() == ".svg" else None


def draw_to(
    path: Path,
    figure: str,
    sources: Sequence[Path],
    theme: str = "light",
    malformed: str | None = None,
    benchmark: str | None = None,
    where: Where = EVERYTHING,
    by: str | None = None,
    dialect: Dialect = OURS,
) -> Picture:
    """Draw the figure called `figure` and write it to `path`, as SVG or PNG by the end of its name.

    `benchmark` draws the responses to one benchmark alone; the rest is as in `read_sources`.
    """
    if figure not in FIGURES:
        unknown_name("figure", figure, list(FIGURES))
    if theme not in THEMES:
        unknown_name("theme", theme, list(THEMES))
    if benchmark is not None and not FIGURES[figure].by_benchmark:
        single = [name for name, plot in FIGURES.items() if plot.by_benchmark]
        raise InputError(
            f"figure '{figure}' is not drawn of a single benchmark; leave --benchmark out, or draw {' or '.join(single)}"
        )
    kind = path.suffix.lower().removeprefix(".")
    if kind not in KINDS:
        raise InputError(f"{path}: unknown kind of picture '{path.suffix}'; end the name in .svg or .png")
    summary = read_sources(sources, malformed, where=where, by=by, dialect=dialect)
    shown = summary if benchmark is None else only_benchmark(summary, benchmark)
    pictures = render(FIGURES[figure], shown, THEMES[theme], [kind])
    if pictures is None:
        given = ", ".join(map(str, sources))
        raise InputError(f"{given}: nothing there for figure '{figure}'; it needs {FIGURES[figure].needs}")
    write_bytes(path, pictures[kind])
    return Picture(path)
