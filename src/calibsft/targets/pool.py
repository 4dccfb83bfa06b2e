"""The pool of graded responses that a training set is built from, from a run or from a user's own file.

A pool is a lazy table with one row per response: dataset, question_id, sample, question, response,
token_ids (null where unknown), finished, correct (null where ungraded), reason. Lazy, so that labels can be
counted over millions of responses before any text is read.
"""

from pathlib import Path

import polars as pl

from calibsft.errors import InputError
from calibsft.responses.formats import Format
from calibsft.responses.parse import parse
from calibsft.tables import boolean_column, read_table, row_of

KEYS = ("dataset", "question_id", "sample")
REQUIRED = ("question_id", "question", "response", "correct")


def pool_of_run(rollouts: Path, verdicts: Path) -> pl.LazyFrame:
    """The pool of finished rollout and verify stages."""
    responses = pl.scan_parquet(rollouts / "part-*.parquet")
    questions = pl.scan_parquet(rollouts / "questions.parquet").select("dataset", "question_id", "question")
    graded = pl.scan_parquet(verdicts / "part-*.parquet").select(*KEYS, "correct", "reason")
    return responses.join(graded, on=KEYS, validate="1:1").join(
        questions, on=("dataset", "question_id"), validate="m:1"
    )


def pool_of_file(path: Path, confidence_format: Format) -> pl.LazyFrame:
    """The pool in a CSV, JSONL or Parquet file with question_id, question, response, correct.

    Optional columns: `sample` (else rows of a question are numbered in file order), `finished` (else true),
    `token_ids`, `dataset`.
    """
    frame = read_table(path, REQUIRED)
    frame = frame.with_columns(
        boolean_column(path, frame, "correct"),
        boolean_column(path, frame, "finished")
        if "finished" in frame.columns
        else pl.lit(True).alias("finished"),
        pl.col("response", "question").cast(pl.String),
    )
    if "dataset" not in frame.columns:
        frame = frame.with_columns(pl.lit("").alias("dataset"))
    if "token_ids" not in frame.columns:
        frame = frame.with_columns(pl.lit(None, dtype=pl.List(pl.Int32)).alias("token_ids"))
    if "sample" not in frame.columns:
        frame = frame.with_columns(pl.int_range(pl.len()).over("dataset", "question_id").alias("sample"))
    _check(path, frame)
    responses = zip(frame["response"], frame["finished"], strict=True)
    reasons = [parse(text, confidence_format, finished=finished).reason.value for text, finished in responses]
    return frame.with_columns(pl.Series("reason", reasons)).lazy()


def _check(path: Path, frame: pl.DataFrame) -> None:
    repeated = frame.select(pl.struct(KEYS).is_duplicated()).to_series()
    if repeated.any():
        row = row_of(repeated)
        question, sample = frame["question_id"][row - 1], frame["sample"][row - 1]
        raise InputError(
            f"{path}, row {row}: question '{question}' has more than one row with sample {sample};"
            " number the samples of a question apart, or leave the column out"
        )
    single = frame.select(pl.len().over("dataset", "question_id") == 1).to_series()
    if single.any():
        row = row_of(single)
        raise InputError(
            f"{path}, row {row}: question '{frame['question_id'][row - 1]}' has a single rollout, which gives no success rate"
            f" ({single.sum()} such questions); sample it more often or remove it"
        )
