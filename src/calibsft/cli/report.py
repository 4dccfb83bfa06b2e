"""`calibsft report`: the page of finished runs, evaluations or files."""

from pathlib import Path
from typing import Annotated

import typer

from calibsft.cli.options import By, Conditions, Malformed
from calibsft.errors import InputError
from calibsft.text import printable

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
            " run, else report.html.",
        ),
    ] = None,
    responses: Annotated[
        int,
        typer.Option(
            "--responses", min=0, help="About how many responses can be read on the page, by whole questions."
        ),
    ] = 100_000,
    malformed: Malformed = None,
    where: Conditions = None,
    by: By = None,
) -> None:
    """Write the report of finished runs: one offline page to look at, compare and read responses in.

    For example `calibsft report runs/tiny-seed0`, or several side by side: `calibsft report runs/tiny-seed0
    runs/tiny-seed1 -o seeds.html`; with --by
    every value of a column is compared with the first.
    """
    from calibsft.metrics.selection import Where
    from calibsft.report.page import write_page, write_report
    from calibsft.report.sources import is_run, read_sources

    for source in sources:
        if not source.exists():
            raise InputError(f"{source}: no such run folder or file; calibsft run makes one")
    if out is None:
        alone = len(sources) == 1 and is_run(sources[0])
        out = sources[0] / "report" if alone else DEFAULT_PAGE
    summary = read_sources(sources, malformed, responses, Where.of(where or ()), by)
    is_page = out.suffix.lower() in PAGE_ENDINGS and not out.is_dir()
    print(printable(f"report: {(write_page if is_page else write_report)(summary, out)}"))
