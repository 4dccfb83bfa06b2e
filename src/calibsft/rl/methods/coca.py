"""CoCA: reasoning learns from correctness, confidence from the group's success rate.

The confidence target is the same for all responses of a group, so this method cannot teach a model to tell
its right answers from its wrong ones on one question.
"""

from calibsft.rl.method import Group, Method, SegmentRewards, TokenSet


def rewards(group: Group) -> SegmentRewards:
    brier_G = group.brier_G(group.group_success_G)
    return SegmentRewards(
        answer_G=group.well_formed_G + group.counted_G.astype(float),
        confidence_G=group.well_formed_G * (1 - brier_G),
    )


COCA = Method("coca", "CoCA", rewards, malformed="0 for both", confidence_tokens=TokenSet.CONFIDENCE_TAG)
