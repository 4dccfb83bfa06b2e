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
            help="Folders of finished runs, e.g. runs/tiny-seed0; or folders that `calibsft eval` wrote, or files with"
            " confidence, correct (and dataset, question_id, question, response, gold). Several are compared.",
        ),
    ],
    out: Annotated[
        Path | None,
        Option(
            "--out",
            "-o",
            help="report.html for the page alone, or a folder for page, Markdown and figures; default RUN/report for a"
            " finished run, which stays complete; else report.html.",
        ),
    ] = None,
    responses: Annotated[
        int, Option(min=0, help="About how many responses the page contains, by whole questions.")
    ] = 100_000,
    malformed: Malformed = None,
    columns: Columns = None,
    scale: ScaleName = None,
    where: Conditions = None,
    by: By = None,
) -> None:
    """Write the report of finished runs: one offline page with results, comparisons and responses.

    For example `calibsft report runs/tiny-seed0`, or several side by side: `calibsft report runs/tiny-seed0
    runs/tiny-seed1 -o seeds.html`. With --by every value of a column is compared with the first.
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
            f"{out}: only the whole report of the finished run there belongs there; choose another --out"
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
