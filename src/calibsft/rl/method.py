"""What a confidence-aware RL method is: rewards of a group of responses, and which tokens each reward goes to.

A method is data and one pure function. It sees confidence, correctness and form of the responses, never tokens, models or
other groups. `sampling` chooses the groups, `advantages` assigns the rewards to tokens, and `trainer` trains on them. None
of the three knows a method's name.
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
    """All responses to one question in one rollout step."""

    correct_G: BoolArray  # whether the answer is right, even if the response is malformed
    confidence_G: FloatArray  # stated, in [0, 1]; NaN if unreadable, which only a malformed response may be
    well_formed_G: BoolArray  # whether the response keeps to the format
    success_rate: float | None = None  # of the question before RL, in [0, 1]; None if unknown

    @property
    def counted_G(self) -> BoolArray:
        """Correctness as rewards count it: a malformed response is not correct."""
        return self.correct_G & self.well_formed_G

    @property
    def is_mixed(self) -> bool:
        """Whether some but not all responses count as correct."""
        return 0 < int(self.counted_G.sum()) < len(self.counted_G)

    def group_success_G(self, leave_one_out: bool) -> FloatArray:
        """The group's success rate for each response: of all responses, or of the others only."""
        counted_G, size = self.counted_G.astype(np.int64), len(self.counted_G)
        total = int(counted_G.sum())
        if leave_one_out:
            return (total - counted_G) / (size - 1)
        return np.full(size, total / size)

    def brier_G(self, target_G: FloatArray | BoolArray) -> FloatArray:
        """(confidence − target)²; 0 if the confidence is unreadable, which no reward may use."""
        return np.nan_to_num((self.confidence_G - target_G) ** 2)


@dataclass(frozen=True, slots=True, eq=False)
class SegmentRewards:
    """One reward per response and segment; None gives a segment's tokens no advantage."""

    answer_G: FloatArray | None
    confidence_G: FloatArray | None

    @classmethod
    def everywhere(cls, reward_G: FloatArray) -> "SegmentRewards":
        """The same reward for all tokens."""
        return cls(reward_G, reward_G)


class TokenSet(Enum):
    """Which tokens of a response receive the confidence reward; all others receive the answer reward."""

    ALL = "all"  # one reward for the whole response
    CONFIDENCE_TAG = "confidence-tag"  # the last <confidence>…</confidence>
    POST_ANSWER = "post-answer"  # everything after the last </answer>, including the end-of-sequence token


@dataclass(frozen=True, slots=True)
class Method:
    """One way to turn a group of responses into rewards."""

    name: str
    title: str
    # From a group and the method's settings to one reward per response and segment.
    rewards: Callable[[Group, Any], SegmentRewards]
    settings: type[MethodSettings]  # its `name` is the method's name
    malformed: str  # the reward of a malformed response as text, for documentation and model cards
    confidence_tokens: TokenSet = TokenSet.ALL
    divide_by_std: bool = True  # divide centred advantages by the group's standard deviation too
    dynamic_sampling: bool = True  # see `is_dynamic`, which settings may change
    formats: tuple[str, ...] = ()  # the confidence formats that the rewards are defined for; empty for all
    needs_success_rate: bool = False  # whether the rewards depend on the question's success rate before RL

    @property
    def is_scalar(self) -> bool:
        """Whether there is one reward per response, as in a plain reward function."""
        return self.confidence_tokens is TokenSet.ALL

    def is_dynamic(self, settings: MethodSettings) -> bool:
        """Whether answers learn only from groups with right and wrong responses.

        Questions that the starting model always solves are then left out from the start.
        """
        return self.dynamic_sampling and not settings.option("all_groups")

    def keeps_mixed_only(self, settings: MethodSettings) -> bool:
        """Whether groups that are all right or all wrong are dropped, so that confidence does not learn from them either."""
        return self.is_dynamic(settings) and not settings.option("keep_unanimous")

    def require_format(self, confidence_format: Format) -> None:
        """Refuse a format that the rewards are not defined for."""
        if self.formats and confidence_format.name not in self.formats:
            raise InputError(
                f"{self.name} is defined for the {' or '.join(self.formats)} format, not for"
                f" '{confidence_format.name}'; choose the format '{self.formats[0]}' and a model that was trained for it"
            )
