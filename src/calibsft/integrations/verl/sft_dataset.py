"""The dataset of CalibSFT for verl: examples in the order of the training, every token with its weight in the loss.

The order is that of `calibsft sft`, fixed before the first step. So every example knows its global batch, and with it the
counts that weights depend on, without any exchange between processes. Does not import verl.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from calibsft.integrations.verl.sft_data import read_examples
from calibsft.sft.batches import collate, training_order
from calibsft.sft.encode import Example
from calibsft.sft.loss import NONE, Counts, token_weights
from calibsft.sft.settings import SftSettings

# The keys of verl's section `data` that this dataset reads besides verl's own.
PLAN = "calibsft"


class CalibSftDataset(Dataset[dict[str, Tensor]]):
    """One entry per response of every step; verl's arguments that change nothing here are not read."""

    def __init__(self, parquet_files: Any, tokenizer: Any, config: Mapping[str, Any], **unused: Any) -> None:
        files = [parquet_files] if isinstance(parquet_files, str) else list(parquet_files)
        (path,) = files
        examples, draws = read_examples(Path(path))
        plan, self._size = config[PLAN], int(config["train_batch_size"])
        self._settings = SftSettings(loss=plan["loss"], beta=plan["beta"])
        order = training_order(draws, plan["steps"] * self._size, plan["seed"])
        self._planned = [examples[row] for row in order]

    def __len__(self) -> int:
        return len(self._planned)

    def __getitem__(self, place: int) -> dict[str, Tensor]:
        batch = collate([self._planned[place]])
        ids_T, segments_T = batch["input_ids"][0], batch["segments"][0]
        counts = _counts(self._planned[place - place % self._size :][: self._size])
        weights_B_T = token_weights(
            self._settings.loss, batch["segments"], batch["correct"], counts, self._settings.beta
        )
        return {
            "input_ids": ids_T,
            "position_ids": torch.arange(len(ids_T)),
            "loss_mask": (segments_T != NONE).long(),
            "weights": weights_B_T[0],
        }


def _counts(batch: list[Example]) -> Counts:
    """The counts of a global batch."""
    return Counts(sum(one.correct for one in batch), len(batch), sum(len(one.response) for one in batch))
