"""`calibsft plot`: one figure of a run or of files."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from calibsft.cli.options import By, Columns, Conditions, Malformed, ScaleName
from calibsft.files.dialect import Dialect
from calibsft.metrics.selection import Where
from calibsft.text import printable


def plot(
    figure: Annotated[str, Argument(help="Which figure; `calibsft ls figures` lists them.")],
    sources: Annotated[
        list[Path],
        Argument(
            metavar="SOURCE…",
            help="Folder of a run; or files with confidence, correct (and question_id, dataset, split), folders that"
            " `calibsft verify` or `calibsft eval` wrote, one for each model.",
        ),
    ],
    out: Annotated[
        Path | None, Option("--out", "-o", help="File to write, .svg or .png; default FIGURE.svg.")
    ] = None,
    theme: Annotated[str, Option(help="For a light or a dark page.")] = "light",
    malformed: Malformed = None,
    columns: Columns = None,
    scale: ScaleName = None,
    where: Conditions = None,
    by: By = None,
    benchmark: Annotated[
        str | None, Option(help="Draw only the responses to this benchmark (column dataset).")
    ] = None,
) -> None:
    """Draw one figure, as SVG or PNG.

    For example `calibsft plot coverage runs/tiny-seed0 -o coverage.png`. Your own files get a line or panel each:
    `calibsft plot reliability before.csv after.csv --theme dark`. With --by every value of a column gets one. A single
    benchmark: `calibsft plot reliability runs/tiny-seed0 --benchmark cross`.
    """
    from calibsft.report.drawing import draw_to

    rows, dialect = Where.of(where or ()), Dialect.of(columns, scale, sources)
    path = out or Path(f"{figure}.svg")
    draw_to(path, figure, sources, theme, malformed, benchmark, rows, by, dialect)
    print(printable(f"figure: {path}"))
