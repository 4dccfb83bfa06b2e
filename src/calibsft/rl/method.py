"""What a confidence-aware RL method is: rewards of a group of responses, and which tokens each reward goes to.

A method is data and one pure function. It sees what a response said and whether that was right, never tokens,
models or the other groups of a batch: `advantages` places what it returns, `sampling` chooses the groups,
`trainer` learns from them, and none of the three knows a method's name.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calibsft.errors import InputError
from calibsft.responses.formats import Format
from calibsft.rl.settings import MethodSettings

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
    """

    correct_G: BoolArray
    confidence_G: FloatArray
    well_formed_G: BoolArray
    success_rate: float | None = None

    @property
    def counted_G(self) -> BoolArray:
        """Correctness as rewards count it: a malformed response is not correct."""
        return self.correct_G & self.well_formed_G

    @property
    def is_mixed(self) -> bool:
        """Whether some but not all responses count as correct."""
        return 0 < int(self.counted_G.sum()) < len(self.counted_G)

    def group_success_G(self, leave_one_out: bool) -> FloatArray:
        """The group's success rate as each response sees it: with its own correctness in it, or without."""
        counted_G, size = self.counted_G.astype(np.int64), len(self.counted_G)
        total = int(counted_G.sum())
        if leave_one_out:
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
    rewards
        From a group and the method's settings to one reward per response and segment.
    settings
        The class of the method's settings, whose `name` is that of the method.
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
    """

    name: str
    title: str
    rewards: Callable[[Group, Any], SegmentRewards]
    settings: type[MethodSettings]
    malformed: str
    confidence_tokens: TokenSet = TokenSet.ALL
    divide_by_std: bool = True
    dynamic_sampling: bool = True
    formats: tuple[str, ...] = ()
    needs_success_rate: bool = False

    @property
    def is_scalar(self) -> bool:
        """Whether one number per response says everything, as a plain reward function can."""
        return self.confidence_tokens is TokenSet.ALL

    def require_format(self, confidence_format: Format) -> None:
        """Refuse a format that the rewards are not defined for."""
        if self.formats and confidence_format.name not in self.formats:
            raise InputError(
                f"{self.name} is defined for the {' or '.join(self.formats)} format, not for"
                f" '{confidence_format.name}'; choose the format '{self.formats[0]}' and a model that was trained for it"
            )
