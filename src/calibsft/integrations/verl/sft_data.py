"""The training set of CalibSFT as token ids with segments, in a Parquet file for `sft_dataset`.

Encoded here and not by verl: a chat template would drop or rewrap the reasoning of some models.
"""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from calibsft.artifacts import write_parquet
from calibsft.sft.encode import Example
from calibsft.table_schemas import Columns

SCHEMA: Columns = {
    "prompt_ids": pl.List(pl.Int32),
    "response_ids": pl.List(pl.Int32),
    "confidence_at": pl.Int32,
    "correct": pl.Boolean,
    "draw": pl.Int32,
}


def write_examples(path: Path, examples: Sequence[Example], draws: Sequence[int]) -> None:
    """Write one row per example; `draws` are the balanced draws that they belong to."""
    rows = [
        (list(one.prompt), list(one.response), one.confidence_at, one.correct, draw)
        for one, draw in zip(examples, draws, strict=True)
    ]
    write_parquet(path, pl.DataFrame(rows, schema=SCHEMA, orient="row"))


def read_examples(path: Path) -> tuple[list[Example], list[int]]:
    """The examples and their draws."""
    table = pl.read_parquet(path)
    columns = (table[name].to_list() for name in SCHEMA)
    rows = list(zip(*columns, strict=True))
    examples = [Example(tuple(prompt), tuple(ids), at, correct) for prompt, ids, at, correct, _ in rows]
    return examples, [row[-1] for row in rows]
