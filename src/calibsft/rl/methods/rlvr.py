"""RLVR: the reward is correctness, and a point for the format. Confidence is not rewarded at all.

The baseline of the paper, and the start of ReDoubt. The only method with a penalty for leaving its start.
"""

from calibsft.rl.method import Group, Method, SegmentRewards


def rewards(group: Group) -> SegmentRewards:
    return SegmentRewards.everywhere(group.well_formed_G + group.counted_G.astype(float))


RLVR = Method("rlvr", "RLVR", rewards, malformed="0", kl=1e-3)
