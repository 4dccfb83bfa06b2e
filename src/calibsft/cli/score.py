"""`calibsft score`: metrics of responses that exist already."""

from pathlib import Path
from typing import Annotated

import typer

from calibsft.cli.options import AsJson, print_scores


def score(
    file: Annotated[
        Path,
        typer.Argument(
            help="CSV, JSONL or Parquet with confidence, correct (and optionally question_id, dataset, split),"
            " or a folder that `calibsft verify` wrote."
        ),
    ],
    malformed: Annotated[
        str,
        typer.Option(
            "--malformed", help="Rows without a readable confidence: error, drop, or counted (as 0)."
        ),
    ] = "error",
    as_json: AsJson = False,
) -> None:
    """Metrics of responses that you already have: accuracy, AUROC, Brier, ECE, diversity."""
    from calibsft.metrics import score_file

    print_scores(score_file(file, malformed), as_json)
