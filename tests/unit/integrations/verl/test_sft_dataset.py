"""The dataset of CalibSFT for verl: the batches of `calibsft sft`, with the weights of its loss."""

from pathlib import Path
from typing import Any

import pytest
import torch

from calibsft.integrations.verl.sft_data import read_examples, write_examples
from calibsft.integrations.verl.sft_dataset import CalibSftDataset
from calibsft.sft.batches import collate, training_order
from calibsft.sft.encode import Example
from calibsft.sft.loss import NONE, VARIANTS, Counts, token_weights

EXAMPLES = [
    Example((1, 2, 3)[: 1 + row % 3], tuple(range(5, 11 + row % 4)), 2 + row % 3, row % 3 == 0)
    for row in range(10)
]
DRAWS = [0, 1] * 5
SIZE, STEPS, SEED = 4, 5, 3


def dataset(folder: Path, loss: str = "calibsft") -> CalibSftDataset:
    write_examples(folder / "train.parquet", EXAMPLES, DRAWS)
    plan: dict[str, Any] = {"loss": loss, "beta": 0.5, "steps": STEPS, "seed": SEED}
    return CalibSftDataset(
        [str(folder / "train.parquet")], None, {"train_batch_size": SIZE, "calibsft": plan}, processor=None
    )


def test_examples_survive_the_file(tmp_path: Path) -> None:
    write_examples(tmp_path / "train.parquet", EXAMPLES, DRAWS)
    assert read_examples(tmp_path / "train.parquet") == (EXAMPLES, DRAWS)


def test_the_order_is_that_of_calibsft_sft(tmp_path: Path) -> None:
    data = dataset(tmp_path)
    planned = [EXAMPLES[row] for row in training_order(DRAWS, STEPS * SIZE, SEED)]
    assert len(data) == len(planned)
    for place, example in enumerate(planned):
        assert tuple(data[place]["input_ids"].tolist()) == example.prompt + example.response


@pytest.mark.parametrize("loss", VARIANTS)
def test_weights_are_those_of_the_global_batch(tmp_path: Path, loss: str) -> None:
    data = dataset(tmp_path, loss)
    order = training_order(DRAWS, STEPS * SIZE, SEED)
    for first in range(0, STEPS * SIZE, SIZE):
        examples = [EXAMPLES[row] for row in order[first : first + SIZE]]
        batch = collate(examples)
        tokens = int((batch["segments"] != NONE).sum())
        counts = Counts(sum(one.correct for one in examples), SIZE, tokens)
        weights_B_T = token_weights(loss, batch["segments"], batch["correct"], counts, 0.5)
        for row in range(SIZE):
            found = data[first + row]
            length = len(found["input_ids"])
            torch.testing.assert_close(found["weights"], weights_B_T[row, :length])
            assert found["loss_mask"].tolist() == (batch["segments"][row, :length] != NONE).long().tolist()
            assert found["position_ids"].tolist() == list(range(length))
