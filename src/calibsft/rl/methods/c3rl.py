"""C3RL: a digit of at least 5 says "I know"; saying so rightly is rewarded, and so is progress over the starting model.

There is a bonus for solving what the starting model never solved, and a penalty for failing what it always solved. The
reward sees only in which half of the scale a digit lies, so it teaches no finer confidence. Trains on all questions,
without dynamic sampling.
"""

from typing import Literal

import numpy as np

from calibsft.rl.method import Group, Method, SegmentRewards
from calibsft.rl.options import AnswerIsRewarded, DividesByDeviation

CHANGE_WEIGHT = 0.5
KNOWING_WEIGHT = 0.1
MALFORMED = -1.0
KNOWN_FROM = 5  # the lowest digit that claims to know


class C3rlSettings(AnswerIsRewarded, DividesByDeviation):
    name: Literal["c3rl"] = "c3rl"


def rewards(group: Group, settings: C3rlSettings) -> SegmentRewards:
    correct_G = group.counted_G
    known_G = np.rint(9 * group.confidence_G) >= KNOWN_FROM
    reward_G = 0.9 * correct_G + 0.1 + np.where(known_G == correct_G, KNOWING_WEIGHT, -KNOWING_WEIGHT)
    reward_G += CHANGE_WEIGHT * (correct_G & (group.success_rate == 0))
    reward_G -= CHANGE_WEIGHT * (~correct_G & (group.success_rate == 1))
    return SegmentRewards.everywhere(np.where(group.well_formed_G, reward_G, MALFORMED))


C3RL = Method(
    "c3rl",
    "C3RL",
    rewards,
    C3rlSettings,
    malformed="-1",
    dynamic_sampling=False,
    formats=("integer",),
    needs_success_rate=True,
)
