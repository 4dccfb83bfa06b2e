"""The responses that evidence is measured of, in parts that hold all responses of their questions.

They come from a folder of rollouts with its verdicts, or from a user's file. Does not measure.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import polars as pl

from calibsft.artifacts import shard_name, shards
from calibsft.errors import InputError
from calibsft.files.cells import refuse_where, text_column
from calibsft.files.columns import response_rows
from calibsft.files.dialect import OURS, Dialect
from calibsft.files.reading import read_table
from calibsft.responses.formats import FORMATS
from calibsft.responses.parse import parse
from calibsft.schema import KEYS, QUESTION_KEYS
from calibsft.verify.verdicts import rollout_rows

VERDICT_COLUMNS = ("answer", "grade", "correct", "reason", "confidence")
REQUIRED = ("question_id", "question", "response")
# An empty response is a malformed one; other cells must not be empty.
FILLED = ("question_id", "question", "sample", "finished", "dataset")
PART_ROWS = 10_000
LOGPROB = "mean_logprob"
OPTIONAL = (LOGPROB,)


@dataclass(frozen=True, slots=True)
class Part:
    """Some of the responses: the name of the file of their evidence, where they come from, and how they are read."""

    name: str
    source: Path
    keys: Callable[[], pl.DataFrame]
    rows: Callable[[], pl.DataFrame]


def run_parts(rollouts: Path, verdicts: Path) -> list[Part]:
    """The shards of a folder of rollouts; `verdicts` is the folder of their verdicts."""
    found = shards(rollouts)
    if not found:
        raise InputError(
            f"{rollouts}: no rollouts there (part-*.parquet); give the folder of a rollout stage"
        )
    return [
        Part(shard.name, shard, partial(_shard_keys, shard), partial(_shard_rows, shard, verdicts))
        for shard in found
    ]


def _shard_keys(shard: Path) -> pl.DataFrame:
    return pl.read_parquet(shard, columns=list(KEYS)).select(KEYS)


def _shard_rows(shard: Path, verdicts: Path) -> pl.DataFrame:
    """A shard's responses with their questions and verdicts."""
    path = verdicts / shard.name
    if not path.is_file():
        raise InputError(f"{path}: the verdicts on {shard} are missing; verify those rollouts first")
    graded = pl.read_parquet(path, columns=[*KEYS, *VERDICT_COLUMNS])
    asked = rollout_rows(shard).rename({"grader": "kind"})
    rows = asked.join(graded, on=KEYS, how="left", validate="1:1", maintain_order="left")
    if rows["grade"].null_count():
        raise InputError(
            f"{path}: some responses of {shard} have no verdict there; verify those rollouts again"
        )
    return rows


def file_parts(path: Path, dialect: Dialect = OURS) -> list[Part]:
    """The responses of a CSV, JSONL or Parquet file with question_id, question, response, as `calibsft build` reads it.

    Optional columns: those of `build`, and `mean_logprob`.
    """
    frame = read_table(path, REQUIRED, FILLED, dialect.unparsed())
    frame = response_rows(path, frame).with_columns(
        pl.col("sample").cast(pl.Int32),
        text_column(path, frame, "question"),
        text_column(path, frame, "response").fill_null(""),
    )
    # Other columns of the file may have the names of ours below.
    read = [*KEYS, "question", "response", "finished", *(name for name in OPTIONAL if name in frame.columns)]
    frame = frame.select(read)
    if LOGPROB in frame.columns:
        frame = frame.with_columns(_logprobs(path, frame[LOGPROB]))
    # How many rows the questions before this one have, in the order in which questions first appear.
    sizes = frame.group_by(QUESTION_KEYS, maintain_order=True).len()
    parts = sizes.with_columns(part=(pl.col("len").cum_sum() - pl.col("len")) // PART_ROWS).drop("len")
    numbered = frame.join(parts, on=QUESTION_KEYS, maintain_order="left").partition_by(
        "part", maintain_order=True, include_key=False
    )
    return [
        Part(shard_name(number), path, partial(rows.select, KEYS), partial(_with_answers, rows))
        for number, rows in enumerate(numbered)
    ]


def _logprobs(path: Path, given: pl.Series) -> pl.Series:
    if given.dtype.is_nested():
        raise InputError(
            f"{path}: column {LOGPROB} holds lists or records; write one number for each response"
        )
    numbers = given.cast(pl.Float32, strict=False)
    wrong = given.is_not_null() & (numbers.is_null() | numbers.is_nan() | (numbers > 0))
    refuse_where(
        path,
        wrong,
        given.cast(pl.String),
        f"{LOGPROB} {{cell}} is not a log-probability ({{rows}} such rows); write numbers up to 0",
    )
    return numbers


def _with_answers(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of a file with the answer that each response gives; the format of its confidence does not matter for it."""
    texts = zip(rows["response"], rows["finished"], strict=True)
    answers = [parse(text, FORMATS["probability"], finished=finished).answer for text, finished in texts]
    return rows.with_columns(answer=pl.Series(answers, dtype=pl.String))
