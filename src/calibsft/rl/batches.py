"""From scored groups to the tensors of TRL's loss: one advantage per token, one token count per minibatch.

The count covers the whole minibatch: all micro-batches on all processes. So the loss is the mean over its tokens, however
it is cut. Knows nothing of a method but its rewards.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from calibsft.rl.advantages import SegmentAdvantages, advantages_G_T, advantages_of
from calibsft.rl.method import FloatArray, Method, SegmentRewards
from calibsft.rl.scoring import Response, ScoredGroup
from calibsft.rl.settings import MethodSettings


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One response to train on; a `stale` one was sampled before the last step's updates."""

    prompt_ids: tuple[int, ...]
    response: Response
    advantages_T: FloatArray
    stale: bool = False

    def weighted_T(self, answer: float, confidence: float) -> FloatArray:
        """The advantages times the weights of their segments."""
        return self.advantages_T * np.where(self.response.confidence_T, confidence, answer)


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """The number of response tokens in a minibatch, and of those in confidence segments."""

    all: float
    confidence: float

    def segment_weights(self) -> tuple[float, float]:
        """The weights of answer and confidence tokens if the loss is averaged over each segment separately."""
        return self.all / max(self.all - self.confidence, 1), self.all / max(self.confidence, 1)


def token_counts(rows: Sequence[Row]) -> TokenCounts:
    """The tokens of these rows alone."""
    return TokenCounts(
        sum(len(row.response.token_ids) for row in rows),
        sum(int(row.response.confidence_T.sum()) for row in rows),
    )


def rewards_of(scored: ScoredGroup, method: Method, settings: MethodSettings) -> SegmentRewards:
    """The method's rewards, less the penalty for responses close to the length limit."""
    rewards, buffer = method.rewards(scored.group, settings), settings.option("overlong_buffer")
    if buffer is None or rewards.answer_G is None:
        return rewards
    lengths_G = np.array([len(response.token_ids) for response in scored.responses])
    answer_G = rewards.answer_G + overlong_penalty(lengths_G, settings.max_new_tokens, buffer)
    return SegmentRewards(answer_G, answer_G if method.is_scalar else rewards.confidence_G)


def overlong_penalty(lengths_G: np.ndarray, limit: int, buffer: int) -> FloatArray:
    """0 until `buffer` tokens before the limit, then falls linearly to −1 at the limit."""
    over_G: FloatArray = (lengths_G - (limit - buffer)) / buffer
    return -np.clip(over_G, 0, 1)


def rows_of(scored: ScoredGroup, method: Method, settings: MethodSettings) -> list[Row]:
    """The rows of one group, every token with its advantage."""
    segments = advantages_of(scored.group, method, rewards_of(scored, method, settings))
    if method.is_dynamic(settings) and not scored.group.is_mixed:
        # Such a group trains confidence only: its answer rewards differ by format, not by correctness.
        segments = SegmentAdvantages(np.zeros(len(scored.responses)), segments.confidence_G)
    marks = [torch.from_numpy(response.confidence_T) for response in scored.responses]
    placed_G_T = advantages_G_T(segments, pad_sequence(marks, batch_first=True).numpy())
    return [
        Row(scored.prompt_ids, response, advantages_T[: len(response.token_ids)])
        for response, advantages_T in zip(scored.responses, placed_G_T, strict=True)
    ]


def cut(rows: Sequence[Row], parts: int) -> list[Sequence[Row]]:
    """`parts` consecutive pieces of nearly equal size; some are empty if there are too few rows."""
    edges = [round(i * len(rows) / parts) for i in range(parts + 1)]
    return [rows[start:stop] for start, stop in pairwise(edges)]


def tensors(
    rows: Sequence[Row], size: int, counts: TokenCounts, by_segment: bool, pad: int
) -> dict[str, Tensor]:
    """A micro-batch of `size` rows for TRL's loss; missing rows are masked.

    The size is the same in all processes, however many groups each kept: TRL gathers one number per row.
    """
    blank = [torch.tensor([pad])] * (size - len(rows))
    nothing = [torch.zeros(1)] * len(blank)
    prompts = [torch.tensor(row.prompt_ids) for row in rows] + blank
    responses = [torch.tensor(row.response.token_ids) for row in rows]
    weigh = counts.segment_weights() if by_segment else (1.0, 1.0)
    advantages = [torch.tensor(row.weighted_T(*weigh)).float() for row in rows]
    logprobs = [torch.from_numpy(row.response.logprobs_T) for row in rows]
    confidence = [torch.from_numpy(row.response.confidence_T) for row in rows]
    return {
        "prompt_ids": _pad(prompts, pad, "left"),
        "prompt_mask": _pad([torch.ones_like(ids) for ids in prompts], 0, "left"),
        "completion_ids": _pad(responses + blank, pad, "right"),
        "completion_mask": _pad(
            [torch.ones_like(ids) for ids in responses] + [torch.zeros_like(ids) for ids in blank], 0, "right"
        ),
        "advantages": _pad(advantages + nothing, 0, "right"),
        "confidence_mask": _pad(confidence + [marks.bool() for marks in nothing], False, "right"),
        "old_per_token_logps": _pad(logprobs + nothing, 0, "right"),
        "stale": torch.tensor([row.stale for row in rows] + [False] * len(blank)),
    }


def _pad(parts: list[Tensor], value: float, side: str) -> Tensor:
    return pad_sequence(parts, True, value, side)
