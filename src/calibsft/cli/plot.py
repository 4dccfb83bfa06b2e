"""`calibsft plot`: one figure of a run or of files."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from calibsft.cli.options import By, Columns, Conditions, Malformed, ScaleName
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
    from calibsft.report.drawing import draw_to

    rows, dialect = Where.of(where or ()), Dialect.of(columns, scale, sources)
    path = out or Path(f"{figure}.svg")
    draw_to(path, figure, sources, theme, malformed, benchmark, rows, by, dialect)
    print(printable(f"figure: {path}"))
