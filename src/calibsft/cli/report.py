"""`calibsft report`: the page of finished runs, evaluations or files."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from calibsft.artifacts import SETTINGS
from calibsft.cli.options import By, Columns, Conditions, Malformed, ScaleName
from calibsft.errors import InputError
from calibsft.files.dialect import Dialect
from calibsft.metrics.selection import Where
from calibsft.text import printable

if TYPE_CHECKING:
    from calibsft.pipeline import Planned

DEFAULT_PAGE = Path("report.html")


def report(
    sources: Annotated[
        list[Path],
        Argument(
            metavar="RUN…",
            help="Folders of finished runs; folders that `calibsft eval` wrote; or files with confidence, correct (and"
            " optionally dataset, question_id, question, response, gold).",
        ),
    ],
    out: Annotated[
        Path | None,
        Option(
            "--out",
            "-o",
            metavar="PATH",
            help="A .html file for the page alone, or a folder for page, Markdown and figures. Default: RUN/report for one"
            " finished run, else report.html.",
        ),
    ] = None,
    responses: Annotated[
        int, Option(min=0, help="About how many responses to put into the page; questions stay whole.")
    ] = 100_000,
    malformed: Malformed = None,
    columns: Columns = None,
    scale: ScaleName = None,
    where: Conditions = None,
    by: By = None,
) -> None:
    """Write a report of runs or of your own files: one offline HTML page with results, comparisons and responses.

    ```sh
    calibsft report runs/tiny-seed0
    calibsft report runs/tiny-seed0 runs/tiny-seed1 -o seeds.html
    calibsft report before.csv after.csv
    ```

    Several runs or files are compared with the first. With --by, the values of a column are compared in this way.
    """
    from calibsft.report.page import PAGE, write_to
    from calibsft.report.sources import is_run, read_sources

    for source in sources:
        if not source.exists():
            raise InputError(f"{source}: no such run folder or file; calibsft run makes one")
    dialect = Dialect.of(columns, scale, sources)
    planned = _report_to_update(sources, out, whole=not where and by is None)
    if out is None:
        # In an unfinished run, RUN/report is reserved for the run's own report stage.
        alone = len(sources) == 1 and is_run(sources[0]) and not (sources[0] / SETTINGS).is_file()
        out = sources[0] / "report" if alone or planned else DEFAULT_PAGE
    if planned is not None:
        planned.stage.model_copy(update={"responses": responses}).perform(out, planned.name, again=True)
        page = out / PAGE
    else:
        summary = read_sources(sources, malformed, responses, Where.of(where or ()), by, dialect)
        page = write_to(summary, out)
    print(printable(f"report: {page}"))


def _report_to_update(sources: list[Path], out: Path | None, whole: bool) -> "Planned | None":
    """The report stage of a finished run, if its report is to be written again; refuses to write anything else there."""
    from calibsft.pipeline import REPORT

    planned = _report_stage(sources[0]) if whole and len(sources) == 1 else None
    if planned is not None and (out is None or out.resolve() == (sources[0] / planned.name).resolve()):
        return planned
    places = (out.resolve(), out.resolve().parent) if out is not None else ()
    if any(place.name == REPORT and (place.parent / SETTINGS).is_file() for place in places):
        raise InputError(
            f"{out}: this place is for the report of the whole finished run; choose another --out"
        )
    return None


def _report_stage(root: Path) -> "Planned | None":
    """The report stage of the run in `root`; None if a stage that it shows is unfinished, or if there is no recipe."""
    from calibsft.pipeline import plan
    from calibsft.recipe import load_recipe

    try:
        planned = plan(load_recipe(str(root / SETTINGS)), root)[-1]
        planned.stage.inputs()  # refuses a stage that is not finished
        return planned
    except InputError:
        return None
