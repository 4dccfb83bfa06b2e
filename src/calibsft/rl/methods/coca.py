"""CoCA: reasoning learns from correctness, confidence from the group's success rate.

The confidence target is the same for all responses of a group, so this method cannot teach a model to tell its right from
its wrong answers to one question.
"""

from typing import Literal

from calibsft.rl.method import Group, Method, SegmentRewards, TokenSet
from calibsft.rl.options import AnswerIsRewarded, DividesByDeviation, LooksAtGroup, RewardsConfidence


class CocaSettings(AnswerIsRewarded, DividesByDeviation, LooksAtGroup, RewardsConfidence):
    name: Literal["coca"] = "coca"


def rewards(group: Group, settings: CocaSettings) -> SegmentRewards:
    brier_G = group.brier_G(group.group_success_G(settings.leave_one_out))
    return SegmentRewards(
        answer_G=group.well_formed_G + group.counted_G.astype(float),
        confidence_G=group.well_formed_G * (1 - brier_G),
    )


COCA = Method(
    "coca",
    "CoCA",
    rewards,
    CocaSettings,
    malformed="0 for both",
    confidence_tokens=TokenSet.CONFIDENCE_TAG,
)
