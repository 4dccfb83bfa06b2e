"""The training set as chat messages for other trainers, with a note on how to train on it."""

import json
from collections.abc import Iterable
from pathlib import Path

import polars as pl

from calibsft.artifacts import CARD, write_atomic, write_text
from calibsft.responses.formats import Format, messages
from calibsft.responses.spans import confidence_start
from calibsft.schema import KEYS

SFT_CHAT = "sft.jsonl"
COLUMNS = ("correct", "target", "draw", *KEYS)
MASKED = """# A CalibSFT training set

`sft.parquet` is what `calibsft sft --data` reads. `sft.jsonl` has the same rows as chat messages, for other trainers.

**Plain SFT on `sft.jsonl` imitates wrong reasoning.** Wrong responses are in it on purpose: they teach when to doubt. CalibSFT trains the
confidence of every response, but reasoning and answer of the correct ones alone. To do the same elsewhere, mask the loss of the
assistant's message: the characters from `confidence_at` on are trained in every row, those before it only where `correct` is true.
Correct rows alone would not do: they teach no low confidence.
"""
IMITATED = """# A training set for the response format

`sft.parquet` is what `calibsft sft --data … --loss full-ce` reads. `sft.jsonl` has the same rows as chat messages, for other trainers.

Every token of every response is trained, of wrong ones too, with the confidence that the response states: the model learns to keep to the
format. It does not learn how sure to be; CalibSFT or RL comes after it.
"""
FIELDS = """
| field of `sft.jsonl` | |
|---|---|
| `messages` | system prompt, question, and the response, whose confidence is the target |
| `correct` | whether its answer is right |
| `confidence_at` | where in the response, in characters, the confidence begins |
| `target` | the confidence that it states |
| `draw` | which balanced draw the row belongs to; train on one draw per epoch, in turn |
| `dataset`, `question_id`, `sample` | which response it is |
"""


def write_chat(
    folder: Path, blocks: Iterable[pl.DataFrame], confidence_format: Format, imitated: bool = False
) -> None:
    """Write the rows of the training set and the note into `folder`; `imitated` if every token is to be trained."""
    write_atomic(folder / SFT_CHAT, lambda partial: _write_rows(partial, blocks, confidence_format))
    write_text(folder / CARD, (IMITATED if imitated else MASKED) + FIELDS)


def _write_rows(path: Path, blocks: Iterable[pl.DataFrame], confidence_format: Format) -> None:
    encode = json.JSONEncoder(ensure_ascii=False).encode
    with path.open("w", encoding="utf-8") as out:
        for block in blocks:
            for question, response, *facts in block.select("question", "response", *COLUMNS).iter_rows():
                turns = [*messages(question, confidence_format), {"role": "assistant", "content": response}]
                row = {"messages": turns, "confidence_at": confidence_start(response)}
                row |= dict(zip(COLUMNS, facts, strict=True))
                out.write(encode(row) + "\n")
