"""Read responses from a user's own file: question_id, response, gold, and optionally kind.

Every error names the file, the row and the remedy. Does not parse or grade.
"""

from pathlib import Path
from typing import Any

import polars as pl

from calibsft.errors import InputError
from calibsft.files.cells import list_of, optional_text, refuse_where, text_column
from calibsft.files.columns import response_rows
from calibsft.files.dialect import OURS, Dialect
from calibsft.files.reading import read_table
from calibsft.success_rates import ending_column
from calibsft.verify import GRADERS
from calibsft.verify.math import MATH
from calibsft.verify.math.numbers import tolerances

DEFAULT_KIND = MATH.name
# A user's own column of confidences.
STATED = "stated"


def read_responses(path: Path, dialect: Dialect = OURS) -> pl.DataFrame:
    """The responses of a CSV, JSONL or Parquet file, with every column that grading reads.

    `gold` is a text, a list of aliases, or such a list written as JSON. Optional columns: `kind` (the grader; default
    math), `tolerance`, `question` (for a judge), `dataset`, `sample`, `finished`; `answer`, which is graded if the
    response has no answer element; and `confidence`, which counts instead of the confidence in the response. An empty
    response is malformed, not an error.
    """
    frame = read_table(
        path,
        required=("question_id", "response", "gold"),
        filled=("question_id", "gold", "dataset", "sample", "finished", "kind"),
        dialect=dialect.unparsed(),
    )
    stated = [_stated_column(path, frame["confidence"], dialect)] if "confidence" in frame.columns else []
    return response_rows(path, frame).select(
        "dataset",
        "question_id",
        pl.col("sample").cast(pl.Int32),
        text_column(path, frame, "response").fill_null(""),
        "finished",
        ending_column(),
        optional_text(path, frame, "answer").alias("other_answer"),
        optional_text(path, frame, "question").fill_null(""),
        gold_column(path, frame),
        kind_column(path, frame).alias("grader"),
        tolerance_column(path, frame),
        *stated,
    )


def _stated_column(path: Path, cells: pl.Series, dialect: Dialect) -> pl.Series:
    """A user's confidences: NaN for an unreadable cell, null for an empty one."""
    read = dialect.read_confidences(path, cells).fill_null(float("nan"))
    return read.set(cells.is_null(), None).alias(STATED)


def kind_column(path: Path, frame: pl.DataFrame) -> pl.Series:
    """The grader of each row, `math` if the file has no such column; refuses an unknown one."""
    if "kind" not in frame.columns:
        return pl.Series("kind", [DEFAULT_KIND] * len(frame))
    kinds = text_column(path, frame, "kind").str.strip_chars()
    unknown = ~kinds.is_in(list(GRADERS))
    complaint = f"unknown grader {{cell}} in column 'kind'; write one of {', '.join(GRADERS)}"
    refuse_where(path, unknown, kinds, complaint)
    return kinds


def gold_column(path: Path, frame: pl.DataFrame) -> pl.Series:
    """The golds of each row as a list of texts; refuses an empty gold and one that is no text."""
    column = frame["gold"]
    inner = column.dtype.inner if isinstance(column.dtype, pl.List) else column.dtype
    if not (inner == pl.String or inner.is_numeric() or inner == pl.Null):
        raise InputError(
            f"{path}: column 'gold' holds {column.dtype}; write a text or a list of texts per row"
        )
    rows = zip(column.to_list(), kind_column(path, frame), strict=True)
    golds = [_aliases(gold, kind) for gold, kind in rows]
    empty = pl.Series([not any(alias.strip() for alias in aliases) for aliases in golds])
    refuse_where(path, empty, column, "'gold' is empty; write the reference answer, or remove the row")
    return pl.Series("gold", golds, dtype=pl.List(pl.String))


def tolerance_column(path: Path, frame: pl.DataFrame) -> pl.Series:
    """The tolerance of each row, empty for none; refuses what is no list of positive decimals."""
    given = optional_text(path, frame, "tolerance").fill_null("")
    wrong = pl.Series([tolerances(text) is None for text in given])
    complaint = "tolerance {cell} is no positive decimal such as 0.01; correct it or leave it empty"
    refuse_where(path, wrong, given, complaint)
    return given


def _aliases(gold: Any, kind: str) -> list[str]:
    if isinstance(gold, list):
        return [str(alias) for alias in gold if alias is not None]
    text = str(gold)
    listed = list_of(text) if text.lstrip().startswith("[") else None
    # In mathematics [0, 1] is an interval; a list of quoted texts is always a list of aliases.
    if listed and (kind != DEFAULT_KIND or all(isinstance(alias, str) for alias in listed)):
        return [str(alias) for alias in listed]
    return [text]
