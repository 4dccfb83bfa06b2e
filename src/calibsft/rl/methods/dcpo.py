"""DCPO: reasoning learns from correctness, confidence from half the group's success rate and half its own.

The confidence target ½p̂ + ½z differs between right and wrong responses of one group. Everything after the
answer learns from the confidence reward alone.
"""

from calibsft.rl.method import Group, Method, SegmentRewards, TokenSet


def rewards(group: Group) -> SegmentRewards:
    correct_G = group.counted_G
    target_G = 0.5 * group.group_success_G + 0.5 * correct_G
    return SegmentRewards(
        answer_G=group.well_formed_G + correct_G.astype(float),
        confidence_G=group.well_formed_G * (1 - group.brier_G(target_G)),
    )


DCPO = Method("dcpo", "DCPO", rewards, malformed="0 for both", confidence_tokens=TokenSet.POST_ANSWER)
