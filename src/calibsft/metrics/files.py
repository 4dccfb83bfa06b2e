"""Score a user's own file: the strict reading of its confidences, and what to do with those that are none.

Every complaint names the file, the row and the way out. Does not compute anything (`score` does) and does not
read model responses: a confidence here is already a number, or its plain decimal text.
"""

from pathlib import Path
from typing import Any

import polars as pl

from calibsft.errors import InputError, unknown_name
from calibsft.metrics.compare import differences
from calibsft.metrics.score import score_table
from calibsft.tables import boolean_column, read_table, require_columns, require_filled, row_of, text_column

MALFORMED_POLICIES = ("error", "counted", "drop")
# [0-9], not \d: in polars' regular expressions \d also matches Arabic and other digits.
CONFIDENCE_TEXT = r"\A[0-9]+(\.[0-9]*)?([eE]-?[0-9]+)?\z"
SHOWN_CHARACTERS = 40


def score_file(
    path: Path,
    malformed: str = "error",
    by: str = "dataset",
    intervals: bool = False,
    baseline: Path | None = None,
) -> dict[str, Any]:
    """Score a CSV, JSONL or Parquet file, or a folder of verdicts; see `score_table` for columns and result.

    Parameters
    ----------
    path : the file; confidences are numbers or ASCII decimals such as 0.73 or 1e-3.
    malformed : what to do with any other confidence: "error" refuses the file, "counted" takes it as 0,
        "drop" leaves the row out.
    by : the column whose values are scored apart.
    intervals : add intervals by drawing questions.
    baseline : another such file, answering the same questions: `against` then holds the paired differences.

    Returns
    -------
    `score_table`'s dictionary and `dropped`, the number of rows left out.
    """
    kept, dropped = read_scored(path, malformed, by)
    found: dict[str, Any] = {**score_table(kept, intervals), "dropped": dropped}
    if baseline is not None:
        other, _ = read_scored(baseline, malformed, by)
        for file, rows in ((path, kept), (baseline, other)):
            require_columns(file, rows, ("question_id",))
        found["against"] = {"baseline": str(baseline), **differences(kept, other)}
    return found


def read_scored(path: Path, malformed: str = "error", by: str = "dataset") -> tuple[pl.DataFrame, int]:
    """The rows of a file that are scored, with confidences as numbers, and how many are left out."""
    if malformed not in MALFORMED_POLICIES:
        unknown_name("policy for malformed confidences", malformed, list(MALFORMED_POLICIES))
    frame, unscored = _read(path, by)
    confidence = _confidence_column(frame["confidence"])
    unread = confidence.is_null()
    if malformed == "error" and unread.any():
        _refuse_confidence(path, frame["confidence"], unread)
    frame = frame.with_columns(confidence, boolean_column(path, frame, "correct"))
    kept = frame.filter(~unread) if malformed == "drop" else frame
    if kept.is_empty():
        raise InputError(
            f"{path}: no row has a readable confidence; write numbers in [0, 1] into that column"
        )
    return kept, unscored + frame.height - kept.height


def _read(path: Path, by: str) -> tuple[pl.DataFrame, int]:
    """The rows to score, and how many the verifier left unscored."""
    frame = read_table(path)
    require_columns(path, frame, ("confidence", "correct", *(() if by == "dataset" else (by,))))
    if by != "dataset":
        frame = frame.with_columns(text_column(path, frame, by).alias("dataset"))
        frame = frame.drop("split", strict=False)
    found = frame.height
    if "grade" in frame.columns:  # verdicts: without a readable gold there is nothing to score
        frame = frame.drop_nulls("correct")
    if "dataset" in frame.columns and (frame["dataset"] == "").all():
        frame = frame.drop("dataset")
    # An empty confidence is malformed, which has its own policy; an empty cell elsewhere is a mistake.
    for column in ("correct", "dataset", "question_id", "split"):
        if column in frame.columns:
            require_filled(path, frame, column)
    return frame, found - frame.height


def _confidence_column(raw: pl.Series) -> pl.Series:
    """The column as floats in its own precision, null where it is not a number in [0, 1]."""
    if raw.dtype == pl.String:
        raw = raw.set(~raw.str.contains(CONFIDENCE_TEXT), None).cast(pl.Float64)
    elif not raw.dtype.is_numeric():
        return pl.Series(raw.name, [None] * len(raw), dtype=pl.Float64)
    values = raw if raw.dtype.is_float() else raw.cast(pl.Float64)
    return values.set(~values.is_between(0, 1), None)


def _refuse_confidence(path: Path, raw: pl.Series, unread: pl.Series) -> None:
    row = row_of(unread)
    value = raw[row - 1]
    # repr keeps terminal control sequences in a hostile file from reaching the terminal.
    shown = repr("" if value is None else str(value)[:SHOWN_CHARACTERS])
    raise InputError(
        f"{path}, row {row}: confidence {shown} is not a number in [0, 1];"
        f" run with --malformed drop to skip such rows ({unread.sum()} found)"
    )
