"""From scored groups to the tensors of TRL's loss: one advantage per token, one token count per minibatch.

The count is that of the whole minibatch - all micro-batches, all processes - so that the loss is the plain mean
over its tokens, however it is cut. Does not know methods beyond calling their rewards.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from calibsft.rl.advantages import SegmentAdvantages, advantages_G_T, advantages_of
from calibsft.rl.method import BoolArray, FloatArray, Method, SegmentRewards
from calibsft.rl.scoring import Response, ScoredGroup
from calibsft.rl.settings import MethodSettings


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One response ready to learn from."""

    prompt_ids: tuple[int, ...]
    response: Response
    advantages_T: FloatArray


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Response tokens of a minibatch, and how many of them lie in the confidence segment."""

    all: float
    confidence: float

    def segment_weights(self) -> tuple[float, float]:
        """What answer and confidence tokens weigh when each segment has a mean of its own."""
        return self.all / max(self.all - self.confidence, 1), self.all / max(self.confidence, 1)


def rewards_of(scored: ScoredGroup, method: Method, settings: MethodSettings) -> SegmentRewards:
    """The method's rewards, with the penalty for responses that come close to the length limit."""
    rewards, buffer = method.rewards(scored.group, settings), settings.option("overlong_buffer")
    if buffer is None or rewards.answer_G is None:
        return rewards
    lengths_G = np.array([len(response.token_ids) for response in scored.responses])
    penalty_G = overlong_penalty(lengths_G, settings.max_new_tokens, buffer)
    if method.is_scalar:
        return SegmentRewards.everywhere(rewards.answer_G + penalty_G)
    return SegmentRewards(rewards.answer_G + penalty_G, rewards.confidence_G)


def overlong_penalty(lengths_G: np.ndarray, limit: int, buffer: int) -> FloatArray:
    """0 up to `buffer` tokens before the limit, falling linearly to −1 at the limit."""
    over_G: FloatArray = (lengths_G - (limit - buffer)) / buffer
    return -np.clip(over_G, 0, 1)


def rows_of(scored: ScoredGroup, method: Method, settings: MethodSettings) -> list[Row]:
    """The rows of one group, every token with its advantage."""
    segments = advantages_of(scored.group, method, rewards_of(scored, method, settings))
    if method.dynamic_sampling and not scored.group.is_mixed:
        # Kept for its confidence alone: what a unanimous group says of its answers is format, not correctness.
        segments = SegmentAdvantages(np.zeros(len(scored.responses)), segments.confidence_G)
    marks_G_T = _padded([response.confidence_T for response in scored.responses])
    placed_G_T = advantages_G_T(segments, marks_G_T)
    return [
        Row(scored.prompt_ids, response, advantages_T[: len(response.token_ids)])
        for response, advantages_T in zip(scored.responses, placed_G_T, strict=True)
    ]


def _padded(marks: Sequence[BoolArray]) -> BoolArray:
    padded = np.zeros((len(marks), max(map(len, marks))), dtype=bool)
    for row, mark in zip(padded, marks, strict=True):
        row[: len(mark)] = mark
    return padded


def cut(rows: Sequence[Row], parts: int) -> list[Sequence[Row]]:
    """`parts` consecutive pieces of nearly equal size; some are empty where there are too few rows."""
    edges = [round(i * len(rows) / parts) for i in range(parts + 1)]
    return [rows[start:stop] for start, stop in pairwise(edges)]


def tensors(
    rows: Sequence[Row], size: int, counts: TokenCounts, by_segment: bool, pad: int
) -> dict[str, Tensor]:
    """A micro-batch of `size` rows as TRL's loss takes it; rows that are missing are masked and weigh nothing.

    The size is the same in all processes, whatever each of them has kept: TRL gathers one number per row.
    """
    blank = [torch.tensor([pad])] * (size - len(rows))
    nothing = [torch.zeros(1)] * len(blank)
    prompts = [torch.tensor(row.prompt_ids) for row in rows] + blank
    responses = [torch.tensor(row.response.token_ids) for row in rows]
    weigh = counts.segment_weights() if by_segment else (1.0, 1.0)
    advantages = [
        torch.tensor(row.advantages_T * np.where(row.response.confidence_T, weigh[1], weigh[0])).float()
        for row in rows
    ]
    logprobs = [torch.from_numpy(row.response.logprobs_T) for row in rows]
    return {
        "prompt_ids": _pad(prompts, pad, "left"),
        "prompt_mask": _pad([torch.ones_like(ids) for ids in prompts], 0, "left"),
        "completion_ids": _pad(responses + blank, pad, "right"),
        "completion_mask": _pad(
            [torch.ones_like(ids) for ids in responses] + [torch.zeros_like(ids) for ids in blank], 0, "right"
        ),
        "advantages": _pad(advantages + nothing, 0, "right"),
        "old_per_token_logps": _pad(logprobs + nothing, 0, "right"),
    }


def _pad(parts: list[Tensor], value: float, side: str) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence(parts, True, value, side)
