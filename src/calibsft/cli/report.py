"""`calibsft report`: the page of finished runs, evaluations or files."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from calibsft.artifacts import SETTINGS
from calibsft.cli.options import By, Conditions, Malformed
from calibsft.errors import InputError
from calibsft.text import printable

if TYPE_CHECKING:
    from calibsft.pipeline import Planned

PAGE_ENDINGS = (".html", ".htm")
DEFAULT_PAGE = Path("report.html")


def report(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN…",
            help="Folders of finished runs, e.g. runs/tiny-seed0; or folders that `calibsft eval` wrote, or files with"
            " confidence, correct (and dataset, question_id, question, response, gold). Several are compared.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="report.html for the page alone, or a folder for page, Markdown and figures; default RUN/report for a"
            " finished run, which stays complete; else report.html.",
        ),
    ] = None,
    responses: Annotated[
        int,
        typer.Option(
            "--responses", min=0, help="About how many responses the page contains, by whole questions."
        ),
    ] = 100_000,
    malformed: Malformed = None,
    where: Conditions = None,
    by: By = None,
) -> None:
    """Write the report of finished runs: one offline page with results, comparisons and responses.

    For example `calibsft report runs/tiny-seed0`, or several side by side: `calibsft report runs/tiny-seed0
    runs/tiny-seed1 -o seeds.html`. With --by every value of a column is compared with the first.
    """
    from calibsft.metrics.selection import Where
    from calibsft.report.page import PAGE, write_page, write_report
    from calibsft.report.sources import is_run, read_sources

    for source in sources:
        if not source.exists():
            raise InputError(f"{source}: no such run folder or file; calibsft run makes one")
    planned = _report_to_update(sources, out, whole=not where and by is None)
    if out is None:
        # In an unfinished run, RUN/report is reserved for the run's own report stage.
        alone = len(sources) == 1 and is_run(sources[0]) and not (sources[0] / SETTINGS).is_file()
        out = sources[0] / "report" if alone or planned else DEFAULT_PAGE
    if planned is not None:
        planned.stage.model_copy(update={"responses": responses}).perform(out, planned.name, again=True)
        page = out / PAGE
    else:
        summary = read_sources(sources, malformed, responses, Where.of(where or ()), by)
        is_page = out.suffix.lower() in PAGE_ENDINGS and not out.is_dir()
        page = (write_page if is_page else write_report)(summary, out)
    print(printable(f"report: {page}"))


def _report_to_update(sources: list[Path], out: Path | None, whole: bool) -> "Planned | None":
    """The report stage of a finished run, if its report is to be written again; refuses to write anything else there."""
    from calibsft.pipeline import belongs_to_run, report_of

    planned = report_of(sources[0]) if whole and len(sources) == 1 else None
    if planned is not None and (out is None or out.resolve() == (sources[0] / planned.name).resolve()):
        return planned
    if out is not None and belongs_to_run(out.resolve()):
        raise InputError(
            f"{out}: only the whole report of the finished run there belongs there; choose another --out"
        )
    return None
