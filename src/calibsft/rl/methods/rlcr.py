"""RLCR: correctness and the Brier score of the stated confidence, as one reward for the whole response.

r = 1 + z + 1 − (c − z)². Proper: stating the true probability of being right is optimal. Reasoning and
confidence tokens get the same reward, so a lucky guess with a fitting confidence reinforces the guess too.
"""

from typing import Literal

from calibsft.rl.method import Group, Method, SegmentRewards
from calibsft.rl.options import AnswerIsRewarded, DividesByDeviation, SamplesDynamically


class RlcrSettings(AnswerIsRewarded, DividesByDeviation, SamplesDynamically):
    name: Literal["rlcr"] = "rlcr"


def rewards(group: Group, settings: RlcrSettings) -> SegmentRewards:
    correct_G = group.counted_G
    reward_G = 1 + correct_G + 1 - group.brier_G(correct_G)
    return SegmentRewards.everywhere(group.well_formed_G * reward_G)


RLCR = Method("rlcr", "RLCR", rewards, RlcrSettings, malformed="0")
