"""What a confidence-aware RL method is: rewards of a group of responses, and which tokens each reward goes to.

A method is data and one pure function. It sees what a response said and whether that was right, never tokens,
models or the other groups of a batch: `advantages` places what it returns, `sampling` chooses the groups,
`trainer` learns from them, and none of the three knows a method's name.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """All responses to one question in one rollout step.

    Attributes
    ----------
    correct_G
        Whether the answer is right, whatever the layout of the response.
    confidence_G
        Stated confidence in [0, 1]; NaN where none could be read, which only a malformed response may have.
    well_formed_G
        Whether the response keeps to the format.
    success_rate
        The question's success rate before RL, in [0, 1]; None where unknown.
    leave_one_out
        Whether a response's own correctness stays out of the success rate that it is compared with.
    """

    correct_G: BoolArray
    confidence_G: FloatArray
    well_formed_G: BoolArray
    success_rate: float | None = None
    leave_one_out: bool = False

    @property
    def counted_G(self) -> BoolArray:
        """Correctness as rewards count it: a malformed response is not correct."""
        return self.correct_G & self.well_formed_G

    @property
    def is_mixed(self) -> bool:
        """Whether some but not all responses count as correct."""
        return 0 < int(self.counted_G.sum()) < len(self.counted_G)

    @property
    def group_success_G(self) -> FloatArray:
        """The group's success rate as each response sees it, from integer counts."""
        counted_G, size = self.counted_G.astype(np.int64), len(self.counted_G)
        total = int(counted_G.sum())
        if self.leave_one_out:
            return (total - counted_G) / (size - 1)
        return np.full(size, total / size)

    def brier_G(self, target_G: FloatArray | BoolArray) -> FloatArray:
        """(confidence − target)², 0 where the confidence is unreadable and no reward may use it."""
        return np.nan_to_num((self.confidence_G - target_G) ** 2)


@dataclass(frozen=True, slots=True, eq=False)
class SegmentRewards:
    """One reward per response and segment; None leaves a segment's tokens without any advantage."""

    answer_G: FloatArray | None
    confidence_G: FloatArray | None

    @classmethod
    def everywhere(cls, reward_G: FloatArray) -> "SegmentRewards":
        """The same reward for all tokens."""
        return cls(reward_G, reward_G)


class TokenSet(Enum):
    """Which tokens of a response receive the confidence reward; all others receive the answer reward."""

    ALL = "all"  # one reward for the whole response, so that there is nothing to tell apart
    CONFIDENCE_TAG = "confidence-tag"  # the last <confidence>…</confidence>
    POST_ANSWER = "post-answer"  # everything after the last </answer>, with the end-of-sequence token


@dataclass(frozen=True, slots=True)
class Method:
    """One way of turning a group of responses into rewards.

    Attributes
    ----------
    malformed
        What a malformed response gets, in words, for documentation and model cards.
    divide_by_std
        Whether advantages are divided by the group's standard deviation besides being centred.
    dynamic_sampling
        Whether only groups with right and wrong responses are trained on. Questions that the starting model
        always solves are then left out beforehand.
    formats
        The confidence formats that the rewards are defined for; empty for all.
    needs_success_rate
        Whether the rewards depend on the question's success rate before RL.
    steps, kl
        Rollout steps and weight of the divergence from the starting model in the paper.
    """

    name: str
    title: str
    rewards: Callable[[Group], SegmentRewards]
    malformed: str
    confidence_tokens: TokenSet = TokenSet.ALL
    divide_by_std: bool = True
    dynamic_sampling: bool = True
    formats: tuple[str, ...] = ()
    needs_success_rate: bool = False
    steps: int = 160
    kl: float = 0.0

    @property
    def is_scalar(self) -> bool:
        """Whether one number per response says everything, as a plain reward function can."""
        return self.confidence_tokens is TokenSet.ALL
