"""The training set as chat messages in JSON Lines, for trainers that read no Parquet."""

import json
from collections.abc import Iterable
from pathlib import Path

import polars as pl

from calibsft.artifacts import write_atomic
from calibsft.responses.spans import confidence_start
from calibsft.schema import KEYS

SFT_CHAT = "sft.jsonl"
COLUMNS = ("correct", "target", "draw", *KEYS)


def write_chat(folder: Path, blocks: Iterable[pl.DataFrame]) -> None:
    """Write the rows of the training set into `folder`."""
    write_atomic(folder / SFT_CHAT, lambda partial: _write_rows(partial, blocks))


def _write_rows(path: Path, blocks: Iterable[pl.DataFrame]) -> None:
    encode = json.JSONEncoder(ensure_ascii=False).encode
    with path.open("w", encoding="utf-8") as out:
        for block in blocks:
            for prompt, completion, *facts in block.select("prompt", "completion", *COLUMNS).iter_rows():
                start = confidence_start(completion[0]["content"])
                row = {"messages": [*prompt, *completion], "confidence_at": start}
                row |= dict(zip(COLUMNS, facts, strict=True))
                out.write(encode(row) + "\n")
