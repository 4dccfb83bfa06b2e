"""The order of training examples, and how examples become tensors.

The whole order is fixed before training starts: balanced draws in turn, each shuffled by the seed, split into global
batches. So a resumed run gets exactly the batches of an uninterrupted one.
"""

from collections.abc import Sequence
from random import Random

import torch
from torch import Tensor
from torch.utils.data import Dataset

from calibsft.sft.encode import Example
from calibsft.sft.loss import CONFIDENCE, NONE, REASONING


def training_order(draws: Sequence[int], total: int, seed: int) -> list[int]:
    """`total` row numbers: epoch e shuffles the rows of draw e, modulo the number of draws that have rows."""
    members: dict[int, list[int]] = {}
    for row, draw in enumerate(draws):
        members.setdefault(draw, []).append(row)
    blocks = list(members.values())
    order: list[int] = []
    epoch = 0
    while len(order) < total:
        rows = list(blocks[epoch % len(blocks)])
        Random(f"sft {seed} {epoch}").shuffle(rows)
        order += rows
        epoch += 1
    return order[:total]


class PlannedExamples(Dataset[Example]):
    """Examples in training order."""

    def __init__(self, examples: Sequence[Example], order: Sequence[int]) -> None:
        self._examples, self._order = examples, order

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, index: int) -> Example:
        return self._examples[self._order[index]]


def collate(examples: Sequence[Example]) -> dict[str, Tensor]:
    """Right-padded tensors: ids, attention mask, segments, correctness."""
    width = max(len(example) for example in examples)
    # The id of padding does not matter: attention masks it, and it has no segment.
    ids_B_T = torch.zeros((len(examples), width), dtype=torch.long)
    mask_B_T = torch.zeros_like(ids_B_T)
    segments_B_T = torch.full_like(ids_B_T, NONE)
    for i, example in enumerate(examples):
        start, stop = len(example.prompt), len(example)
        ids_B_T[i, :stop] = torch.tensor(example.prompt + example.response)
        mask_B_T[i, :stop] = 1
        segments_B_T[i, start : start + example.confidence_at] = REASONING
        segments_B_T[i, start + example.confidence_at : stop] = CONFIDENCE
    correct_B = torch.tensor([example.correct for example in examples])
    return {"input_ids": ids_B_T, "attention_mask": mask_B_T, "segments": segments_B_T, "correct": correct_B}
