"""`calibsft select`: which answers of a batch to keep, so that on average few of them are wrong."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from calibsft.cli.options import AsJson, Columns, Conditions, Malformed, ScaleName, print_lines
from calibsft.files.dialect import Dialect
from calibsft.metrics.selection import Where


def select(
    file: Annotated[
        Path,
        Argument(
            help="Labelled answers, as `calibsft certify` reads them: question_id, confidence, correct."
        ),
    ],
    batch: Annotated[
        Path,
        Argument(
            help="The answers to choose from: CSV, JSONL or Parquet with confidence, one answer per question."
        ),
    ],
    risk: Annotated[
        float,
        Option(
            metavar="RATE", help="Largest share of wrong answers among the kept ones, on average, e.g. 0.1."
        ),
    ],
    out: Annotated[
        Path, Option(metavar="FILE", help="File for the kept rows of the batch: .csv, .jsonl or .parquet.")
    ] = Path("kept.jsonl"),
    columns: Columns = None,
    scale: ScaleName = None,
    where: Conditions = None,
    per_question: Annotated[
        str,
        Option(
            metavar="random|first", help="Which answer counts where a question has several labelled ones."
        ),
    ] = "random",
    seed: Annotated[int, Option(min=0, max=2**32 - 1, help="Seed of the random choice.")] = 0,
    malformed: Malformed = None,
    force: Annotated[bool, Option("--force", help="Replace an existing file.")] = False,
    as_json: AsJson = False,
) -> None:
    """Choose which answers of a batch to keep, so that on average few of them are wrong.

    ```sh
    calibsft select labelled.csv batch.csv --risk 0.1 --out kept.csv
    ```

    This is conformal selection: on average over labelled answers and batches, at most --risk of the kept answers are wrong.
    The guarantee is weaker than that of `calibsft certify`, which holds with high probability, but about 200 labels are
    enough. The labelled answers must be like those of the batch.
    """
    from calibsft import decisions
    from calibsft.decisions.files import read_batch, read_calibration
    from calibsft.files.writing import require_writable, write_table
    from calibsft.report.decisions import selection_lines

    require_writable(out, force)
    dialect = Dialect.of(columns, scale, [file, batch])
    given = read_calibration(file, malformed, Where.of(where or ()), dialect=dialect)
    rows, offered = read_batch(batch, dialect)
    labelled = given.rows["confidence"], given.rows["correct"], given.questions
    found = decisions.select(*labelled, offered, risk, per_question, seed)
    kept = rows.filter(found.keep)
    write_table(out, kept)
    data = {
        "risk": found.risk,
        "guarantee": found.guarantee,
        "labelled": found.labelled,
        "wrong": found.wrong,
        "answers": rows.height,
        "kept": kept.height,
        "lowest": found.lowest,
        "left_out": given.left_out,
        "out": str(out),
    }
    print_lines(selection_lines(found, str(out)), data, as_json)
