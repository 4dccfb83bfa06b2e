"""`calibsft score`: metrics of existing responses."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from calibsft.cli.options import AsJson, Conditions, Malformed, print_lines
from calibsft.errors import InputError
from calibsft.metrics.selection import Where
from calibsft.report.scores import correlation_lines, csv_lines, difference_lines, markdown_lines
from calibsft.report.terminal import evaluation_lines


def score(
    file: Annotated[
        Path,
        Argument(
            help="CSV, JSONL or Parquet with confidence, correct (and optionally question_id, dataset, split),"
            " or a folder that `calibsft verify` or `calibsft eval` wrote."
        ),
    ],
    malformed: Malformed = None,
    by: Annotated[str, Option(help="Column whose values are scored apart.")] = "dataset",
    where: Conditions = None,
    baseline: Annotated[
        Path | None, Option(help="Another file with the same questions: paired differences to it.")
    ] = None,
    intervals: Annotated[
        bool, Option("--intervals", help="95 % intervals by drawing questions; needs question_id.")
    ] = False,
    as_json: AsJson = False,
    as_csv: Annotated[bool, Option("--csv", help="Print the scores as CSV.")] = False,
    as_markdown: Annotated[bool, Option("--md", help="Print the scores as a Markdown table.")] = False,
) -> None:
    """Metrics of responses that you already have: `calibsft score responses.csv --baseline other.csv`.

    Accuracy, AUROC, Brier, ECE, PCE, Cap-Brier, E-AURC, RCE and diversity: pooled, by dataset, and as means over
    datasets. Fractions, not percent.
    """
    from calibsft.metrics import score_file

    if as_json + as_csv + as_markdown > 1:
        raise InputError("--json, --csv and --md are three forms of the same; choose one")
    show_progress = True
    scores = score_file(file, malformed, by, intervals, baseline, show_progress, Where.of(where or ()))
    if as_json:
        print_lines([], scores, as_json)
    elif as_csv or as_markdown:
        print_lines((csv_lines if as_csv else markdown_lines)(scores))
    else:
        others = difference_lines(scores["against"]) if baseline else []
        print_lines(evaluation_lines(dict(scores)) + correlation_lines(scores) + others)
