"""The graded responses that a training set is built from, of a run or a user's file.

Lazy: labels need no text, and texts are read part by part, so that millions of responses fit into memory.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import polars as pl

from calibsft.artifacts import QUESTIONS, shards
from calibsft.errors import InputError
from calibsft.files.cells import boolean_column, refuse_where, text_column
from calibsft.files.columns import response_rows
from calibsft.files.dialect import OURS, Dialect
from calibsft.files.reading import read_table
from calibsft.responses.formats import Format
from calibsft.responses.parse import parse
from calibsft.schema import KEYS, QUESTION_KEYS
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
# The number of a response among those that count.
ROW = "row"


@dataclass(frozen=True, slots=True)
class Pool:
    """Graded responses: the columns `GRADED` of all, and the text of each question, once.

    The texts are in `parts`: each takes names of `TEXTS` and reads these columns. `keys` has the keys of the responses in
    `parts`, in their order: from here, responses are found without their texts.
    """

    graded: pl.LazyFrame
    parts: tuple[Callable[[Sequence[str]], pl.DataFrame], ...]
    keys: pl.LazyFrame
    questions: pl.LazyFrame


def pool_of_run(rollouts: Path, verdicts: Path) -> Pool:
    """The pool of finished rollout and verify stages; its parts are the shards."""
    found = shards(rollouts)
    return Pool(
        graded=pl.scan_parquet(shards(verdicts)).select(*GRADED),
        parts=tuple(partial(_read_shard, shard) for shard in found),
        keys=pl.scan_parquet(found).select(*KEYS),
        questions=pl.scan_parquet(rollouts / QUESTIONS).select(*QUESTION_KEYS, "question"),
    )


def _read_shard(shard: Path, columns: Sequence[str]) -> pl.DataFrame:
    # Decodes token ids, most of the work, in two thirds of the time that Polars takes.
    from pyarrow.parquet import ParquetFile

    table = ParquetFile(shard).read(columns=list(columns), use_threads=False)
    return pl.DataFrame(table, schema_overrides={name: TEXTS[name] for name in columns})


def pool_of_file(
    path: Path, confidence_format: Format, single: bool = False, dialect: Dialect = OURS
) -> Pool:
    """The pool in a CSV, JSONL or Parquet file with question_id, question, response, correct.

    Optional columns: `sample` (default: the order of the question's rows), `finished` (default: true), `token_ids` (lists, or
    JSON lists as text), `dataset`. An empty response is malformed, not a mistake in the file: without it the success rate
    of its question would change. `single` allows questions with one response, for targets without success rates.
    """
    frame = read_table(path, REQUIRED, FILLED, dialect.unparsed())
    frame = response_rows(path, frame).with_columns(
        boolean_column(path, frame, "correct"),
        text_column(path, frame, "question"),
        text_column(path, frame, "response").fill_null(""),
        _token_ids(path, frame),
    )
    _refuse_questions(path, frame, pl.col("question").n_unique().over(QUESTION_KEYS) > 1, SEVERAL_QUESTIONS)
    if not single:
        _refuse_questions(path, frame, pl.len().over(QUESTION_KEYS) == 1, SINGLE)
    responses = zip(frame["response"], frame["finished"], strict=True)
    parsed = (parse(text, confidence_format, finished=finished) for text, finished in responses)
    read = [(one.reason.value, one.confidence) for one in parsed]
    frame = frame.with_columns(
        pl.Series("reason", [reason for reason, _ in read]),
        pl.Series("confidence", [stated for _, stated in read], pl.Float64),
        ending_column(),
        pl.col("sample").cast(pl.Int32),
    )
    rows = frame.lazy()
    questions = rows.select(*QUESTION_KEYS, "question").unique(QUESTION_KEYS)
    return Pool(rows.select(*GRADED), (frame.select(*TEXTS).select,), rows.select(*KEYS), questions)


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


def _refuse_questions(path: Path, frame: pl.DataFrame, wrong: pl.Expr, complaint: str) -> None:
    refuse_where(path, frame.select(wrong).to_series(), frame["question_id"], complaint)
