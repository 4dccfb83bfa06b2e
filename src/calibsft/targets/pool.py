"""The graded responses that a training set is built from, of a run or a user's file.

Lazy: labels need no text, and texts are read part by part, so that millions of responses fit into memory.
"""

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from calibsft.artifacts import QUESTIONS, shards
from calibsft.errors import InputError
from calibsft.files.cells import boolean_column, refuse_where, text_column
from calibsft.files.columns import response_rows
from calibsft.files.reading import read_table
from calibsft.responses.formats import Format
from calibsft.responses.parse import parse
from calibsft.schema import QUESTION_KEYS
from calibsft.success_rates import ending_column
from calibsft.table_schemas import GRADED, TEXTS

REQUIRED = ("question_id", "question", "response", "correct")
# An empty response is a malformed one; other cells must not be empty.
FILLED = ("question_id", "question", "correct", "sample", "finished", "dataset")
SEVERAL_QUESTIONS = "{column} {cell} stands for different questions; give every question its own id, or add a column 'dataset'"
SINGLE = (
    "question {cell} has a single rollout, which gives no success rate ({rows} such questions); sample it more often or"
    " remove it"
)


@dataclass(frozen=True, slots=True)
class Pool:
    """Graded responses: the columns `GRADED` of all of them, and the columns `TEXTS` in parts."""

    graded: pl.LazyFrame
    parts: tuple[pl.LazyFrame, ...]


def pool_of_run(rollouts: Path, verdicts: Path) -> Pool:
    """The pool of finished rollout and verify stages; its parts are the shards."""
    questions = pl.scan_parquet(rollouts / QUESTIONS).select(*QUESTION_KEYS, "question")
    parts = (
        pl.scan_parquet(shard).join(questions, on=QUESTION_KEYS, validate="m:1").select(*TEXTS)
        for shard in shards(rollouts)
    )
    return Pool(pl.scan_parquet(shards(verdicts)).select(*GRADED), tuple(parts))


def pool_of_file(path: Path, confidence_format: Format) -> Pool:
    """The pool in a CSV, JSONL or Parquet file with question_id, question, response, correct.

    Optional columns: `sample` (default: the order of the question's rows), `finished` (default: true), `token_ids` (lists, or
    JSON lists as text), `dataset`. An empty response is malformed, not a mistake in the file: without it the success rate
    of its question would change.
    """
    frame = read_table(path, REQUIRED, FILLED)
    frame = response_rows(path, frame).with_columns(
        boolean_column(path, frame, "correct"),
        text_column(path, frame, "question"),
        text_column(path, frame, "response").fill_null(""),
        _token_ids(path, frame),
    )
    _check(path, frame)
    responses = zip(frame["response"], frame["finished"], strict=True)
    reasons = [parse(text, confidence_format, finished=finished).reason.value for text, finished in responses]
    frame = frame.with_columns(pl.Series("reason", reasons), ending_column(), pl.col("sample").cast(pl.Int32))
    return Pool(frame.lazy().select(*GRADED), (frame.lazy().select(*TEXTS),))


def first_samples(graded: pl.LazyFrame, samples: int | None) -> pl.LazyFrame:
    """The first `samples` responses to every question, by sample number; None keeps all."""
    if samples is None:
        return graded
    return graded.filter(pl.col("sample").rank("ordinal").over(QUESTION_KEYS) <= samples)


def _token_ids(path: Path, frame: pl.DataFrame) -> pl.Series:
    """The sampled token ids as lists, null if unknown."""
    if "token_ids" not in frame.columns:
        return pl.Series("token_ids", [None] * len(frame), dtype=pl.List(pl.Int32))
    given = frame["token_ids"]
    try:
        lists = given.str.json_decode(pl.List(pl.Int32)) if given.dtype == pl.String else given
        return lists.cast(pl.List(pl.Int32))
    except pl.exceptions.PolarsError as error:
        raise InputError(
            f"{path}: column 'token_ids' holds something else than lists of token ids; write lists such as"
            " [1, 2], or leave the column out"
        ) from error


def _check(path: Path, frame: pl.DataFrame) -> None:
    """Refuse an id that several questions share, and questions with a single response."""
    several = frame.select(pl.col("question").n_unique().over(QUESTION_KEYS) > 1).to_series()
    refuse_where(path, several, frame["question_id"], SEVERAL_QUESTIONS)
    single = frame.select(pl.len().over(QUESTION_KEYS) == 1).to_series()
    refuse_where(path, single, frame["question_id"], SINGLE)
