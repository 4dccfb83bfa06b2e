"""The training set as chat messages for other trainers, with a note on how to train on it."""

import json
from pathlib import Path

import polars as pl

from calibsft.artifacts import CARD, write_atomic, write_text
from calibsft.responses.formats import Format, messages
from calibsft.responses.spans import confidence_start
from calibsft.schema import KEYS

SFT_CHAT = "sft.jsonl"
COLUMNS = ("correct", "target", "draw", *KEYS)
NOTE = """# A CalibSFT training set

`sft.parquet` is what `calibsft sft --data` reads. `sft.jsonl` has the same rows as chat messages, for other trainers.

**Plain SFT on `sft.jsonl` imitates wrong reasoning.** Wrong responses are in it on purpose: they teach when to doubt. CalibSFT trains the
confidence of every response, but reasoning and answer of the correct ones alone. To do the same elsewhere, mask the loss of the
assistant's message: the characters from `confidence_at` on are trained in every row, those before it only where `correct` is true.
Correct rows alone would not do: they teach no low confidence.

| field of `sft.jsonl` | |
|---|---|
| `messages` | system prompt, question, and the response with its confidence replaced by the target |
| `correct` | whether its answer is right |
| `confidence_at` | where in the response, in characters, the confidence begins |
| `target` | the confidence that it now states |
| `draw` | which balanced draw the row belongs to; train on one draw per epoch, in turn |
| `dataset`, `question_id`, `sample` | which response it is |
"""


def write_chat(folder: Path, table: pl.DataFrame, confidence_format: Format) -> None:
    """Write the rows of the training set and the note into `folder`."""
    write_atomic(folder / SFT_CHAT, lambda partial: _write_rows(partial, table, confidence_format))
    write_text(folder / CARD, NOTE)


def _write_rows(path: Path, table: pl.DataFrame, confidence_format: Format) -> None:
    with path.open("w", encoding="utf-8") as out:
        for question, response, *facts in table.select("question", "response", *COLUMNS).iter_rows():
            turns = [*messages(question, confidence_format), {"role": "assistant", "content": response}]
            row = {"messages": turns, "confidence_at": confidence_start(response)}
            row |= dict(zip(COLUMNS, facts, strict=True))
            out.write(json.dumps(row, ensure_ascii=False) + "\n")
