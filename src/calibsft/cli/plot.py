"""`calibsft plot`: one figure of a run or of files."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from calibsft.artifacts import write_bytes
from calibsft.cli.options import By, Columns, Conditions, Malformed, ScaleName
from calibsft.errors import InputError, unknown_name
from calibsft.files.dialect import Dialect
from calibsft.metrics.selection import Where
from calibsft.text import printable


def plot(
    figure: Annotated[
        str, Argument(help="Name of the figure, e.g. reliability; `calibsft ls figures` lists them.")
    ],
    sources: Annotated[
        list[Path],
        Argument(
            metavar="SOURCE…",
            help="A run folder; or, one for each model, files with confidence, correct (and optionally question_id, dataset,"
            " split) or folders that `calibsft verify` or `calibsft eval` wrote.",
        ),
    ],
    out: Annotated[
        Path | None,
        Option("--out", "-o", metavar="FILE", help="File to write, .svg or .png; default: FIGURE.svg."),
    ] = None,
    theme: Annotated[str, Option(metavar="light|dark", help="Colours for a light or a dark page.")] = "light",
    malformed: Malformed = None,
    columns: Columns = None,
    scale: ScaleName = None,
    where: Conditions = None,
    by: By = None,
    benchmark: Annotated[
        str | None, Option(metavar="NAME", help="Draw only the responses to this benchmark (column dataset).")
    ] = None,
) -> None:
    """Draw one figure of a run or of your own files, as SVG or PNG.

    ```sh
    calibsft plot coverage runs/tiny-seed0 -o coverage.png
    calibsft plot reliability before.csv after.csv --theme dark
    calibsft plot reliability runs/tiny-seed0 --benchmark cross
    ```

    Every file gets a line or a panel of its own; with --by, every value of a column.
    """
    from calibsft.report.figures import FIGURES, KINDS, THEMES, render
    from calibsft.report.sources import only_benchmark, read_sources

    if figure not in FIGURES:
        unknown_name("figure", figure, list(FIGURES))
    if theme not in THEMES:
        unknown_name("theme", theme, list(THEMES))
    if benchmark is not None and not FIGURES[figure].by_benchmark:
        single = [name for name, plot in FIGURES.items() if plot.by_benchmark]
        raise InputError(
            f"figure '{figure}' is not drawn of a single benchmark; leave --benchmark out, or draw {' or '.join(single)}"
        )
    path = out or Path(f"{figure}.svg")
    kind = path.suffix.lower().removeprefix(".")
    if kind not in KINDS:
        raise InputError(f"{path}: unknown kind of picture '{path.suffix}'; end the name in .svg or .png")
    dialect = Dialect.of(columns, scale, sources)
    summary = read_sources(sources, malformed, where=Where.of(where or ()), by=by, dialect=dialect)
    shown = summary if benchmark is None else only_benchmark(summary, benchmark)
    pictures = render(FIGURES[figure], shown, THEMES[theme], [kind])
    if pictures is None:
        given = ", ".join(map(str, sources))
        raise InputError(f"{given}: nothing there for figure '{figure}'; it needs {FIGURES[figure].needs}")
    write_bytes(path, pictures[kind])
    print(printable(f"figure: {path}"))
