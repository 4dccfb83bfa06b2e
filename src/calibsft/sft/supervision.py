"""The weight of every training token in the loss, for people who read the training rows in a report.

Uses the same examples and weights as the loss, for the questions that a report shows. Does not change the training.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
from transformers import PreTrainedTokenizerBase

from calibsft.artifacts import SUPERVISION, write_parquet
from calibsft.responses.spans import TokenOffsets
from calibsft.schema import KEYS
from calibsft.sft.batches import collate
from calibsft.sft.encode import Example
from calibsft.sft.loss import Counts, token_weights
from calibsft.sft.settings import SftSettings

SHOWN_ROWS = 4000


def write_supervision(
    folder: Path,
    tokenizer: PreTrainedTokenizerBase,
    rows: pl.DataFrame,
    examples: Sequence[Example],
    settings: SftSettings,
) -> None:
    """Write `supervision.parquet`: for each response the texts and weights of its tokens, and where confidence begins.

    `rows` has one training row per example. If it lacks the keys of responses, nothing is written.
    """
    if not set(KEYS) <= set(rows.columns):
        return
    shown = shown_rows(rows)
    tokens_of_all = sum(len(example.response) for example in examples)
    counts = Counts(sum(example.correct for example in examples), len(examples), tokens_of_all)
    pieces: dict[int, str] = {}
    tokens = [TokenOffsets(tokenizer, examples[row].response, pieces).texts() for row in shown]
    weights = [example_weights(examples[row], settings, counts) for row in shown]
    table = rows[shown].select(
        *KEYS,
        tokens=pl.Series(tokens, dtype=pl.List(pl.String)),
        weights=pl.Series(weights, dtype=pl.List(pl.Float32)),
        confidence_at=pl.Series([examples[row].confidence_at for row in shown], dtype=pl.Int32),
    )
    write_parquet(folder / SUPERVISION, table)


def shown_rows(rows: pl.DataFrame, most: int = SHOWN_ROWS) -> list[int]:
    """Row numbers of about `most` responses of whole questions, each response once."""
    numbered = rows.select(KEYS).with_row_index("row").unique(KEYS, keep="first").sort(KEYS)
    questions = numbered.group_by(KEYS[:2], maintain_order=True).agg("row")["row"]
    wanted = max(1, min(len(questions), most * len(questions) // len(numbered)))
    chosen = np.linspace(0, len(questions) - 1, wanted).round().astype(int)
    return sorted(int(row) for place in chosen for row in questions[int(place)])


def example_weights(example: Example, settings: SftSettings, counts: Counts) -> list[float]:
    """The weight of each token of the response in the loss of one epoch."""
    batch = collate([example])
    weights_B_T = token_weights(settings.loss, batch["segments"], batch["correct"], counts, settings.beta)
    weights: list[float] = weights_B_T[0, len(example.prompt) :].tolist()
    return weights
