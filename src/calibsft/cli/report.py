"""`calibsft report`: the page of a finished run."""

from pathlib import Path
from typing import Annotated

import typer

from calibsft.errors import InputError


def report(
    run_folder: Annotated[
        Path, typer.Argument(metavar="RUN", help="Folder of a finished run, e.g. runs/tiny-seed0.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for the report; default RUN/report.")
    ] = None,
) -> None:
    """Write the report of a finished run: one offline HTML page, Markdown, and the figures as SVG."""
    from calibsft.pipeline import recorded_order
    from calibsft.report.page import write_report
    from calibsft.report.runs import summarise

    if not run_folder.is_dir():
        raise InputError(f"{run_folder}: no such run folder; calibsft run makes one")
    print(
        f"report: {write_report(summarise(run_folder, recorded_order(run_folder)), out or run_folder / 'report')}"
    )
