"""The order of training examples, and how examples become tensors.

The whole order is fixed before training starts: balanced draws in turn, each shuffled by the seed, split into global
batches. So a resumed run gets exactly the batches of an uninterrupted one.
"""

from collections.abc import Sequence
from random import Random

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

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


def collate(examples: Sequence[Example]) -> dict[str, Tensor]:
    """Right-padded tensors: ids, attention mask, segments, correctness."""
    ids = [torch.tensor(example.prompt + example.response) for example in examples]
    return {
        # The id of padding does not matter: attention masks it, and it has no segment.
        "input_ids": pad_sequence(ids, batch_first=True),
        "attention_mask": pad_sequence([torch.ones_like(row) for row in ids], batch_first=True),
        "segments": pad_sequence([_segments(example) for example in examples], True, NONE),
        "correct": torch.tensor([example.correct for example in examples]),
    }


def _segments(example: Example) -> Tensor:
    lengths = (len(example.prompt), example.confidence_at, len(example.response) - example.confidence_at)
    return torch.tensor((NONE, REASONING, CONFIDENCE)).repeat_interleave(torch.tensor(lengths))
