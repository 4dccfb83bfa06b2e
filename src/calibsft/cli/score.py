"""`calibsft score`: metrics of existing responses."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from calibsft.cli.options import (
    COMMON,
    READING,
    AsJson,
    Columns,
    Conditions,
    Malformed,
    ScaleName,
    print_lines,
)
from calibsft.errors import InputError
from calibsft.files.dialect import Dialect
from calibsft.metrics.selection import Where
from calibsft.report.scores import check_lines, correlation_lines, csv_lines, difference_lines, markdown_lines
from calibsft.report.terminal import evaluation_lines


def score(
    file: Annotated[
        Path,
        Argument(
            help="CSV, JSONL or Parquet with confidence, correct (and optionally question_id, dataset, split); a log of chats,"
            " Inspect or lm-evaluation-harness; or a folder that `calibsft verify` or `calibsft eval` wrote."
        ),
    ],
    malformed: Malformed = None,
    by: Annotated[
        str, Option(metavar="COLUMN", help="Also score every value of this column.", rich_help_panel=READING)
    ] = "dataset",
    columns: Columns = None,
    scale: ScaleName = None,
    where: Conditions = None,
    baseline: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Another file with the same questions; shows the differences to it, paired by question.",
        ),
    ] = None,
    intervals: Annotated[
        bool,
        Option("--intervals", help="Show 95 % intervals, by bootstrap over questions; needs question_id."),
    ] = False,
    check: Annotated[
        bool,
        Option(
            "--check",
            help="Test whether the confidences are calibrated, and show the ECE that a calibrated model would show by chance.",
        ),
    ] = False,
    as_json: AsJson = False,
    as_csv: Annotated[
        bool, Option("--csv", help="Print the metrics as CSV.", rich_help_panel=COMMON)
    ] = False,
    as_markdown: Annotated[
        bool, Option("--md", help="Print the metrics as a Markdown table.", rich_help_panel=COMMON)
    ] = False,
) -> None:
    """Compute metrics of responses that you already have: accuracy, Brier score, ECE, AUROC and more.

    ```sh
    calibsft score responses.csv
    calibsft score responses.csv --baseline other.csv --intervals
    ```

    Metrics are shown over all responses, by dataset, and as means over datasets. All are fractions, not percent.
    `calibsft ls metrics` says what each one is.
    """
    from calibsft.metrics import score_file

    if as_json + as_csv + as_markdown > 1:
        raise InputError("--json, --csv and --md are three forms of the same; choose one")
    if check and (as_csv or as_markdown):
        raise InputError("--check is shown in a terminal and by --json; leave --csv and --md out")
    show_progress, taken = True, Where.of(where or ())
    dialect = Dialect.of(columns, scale, [file, *([baseline] if baseline else [])])
    scores = score_file(file, malformed, by, intervals, baseline, show_progress, taken, check, dialect)
    if as_json:
        print_lines([], scores, as_json)
    elif as_csv or as_markdown:
        print_lines((csv_lines if as_csv else markdown_lines)(scores))
    else:
        others = difference_lines(scores["against"]) if baseline else []
        checks = check_lines(scores) if check else []
        print_lines(evaluation_lines(dict(scores)) + correlation_lines(scores) + checks + others)
