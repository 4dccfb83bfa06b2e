"""DCPO: reasoning learns from correctness, confidence from the mean of correctness and the group's success rate.

The confidence target ½p̂ + ½z differs between right and wrong responses of one group. Everything after the
answer learns only from the confidence reward.
"""

from typing import Literal

from calibsft.rl.method import Group, Method, SegmentRewards, TokenSet
from calibsft.rl.options import AnswerIsRewarded, DividesByDeviation, LooksAtGroup, RewardsConfidence


class DcpoSettings(AnswerIsRewarded, DividesByDeviation, LooksAtGroup, RewardsConfidence):
    name: Literal["dcpo"] = "dcpo"


def rewards(group: Group, settings: DcpoSettings) -> SegmentRewards:
    correct_G = group.counted_G
    target_G = 0.5 * group.group_success_G(settings.leave_one_out) + 0.5 * correct_G
    return SegmentRewards(
        answer_G=group.well_formed_G + correct_G.astype(float),
        confidence_G=group.well_formed_G * (1 - group.brier_G(target_G)),
    )


DCPO = Method(
    "dcpo",
    "DCPO",
    rewards,
    DcpoSettings,
    malformed="0 for both",
    confidence_tokens=TokenSet.POST_ANSWER,
)
