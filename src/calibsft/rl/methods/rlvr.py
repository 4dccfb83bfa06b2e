"""RLVR: the reward is correctness, and a point for the format. Confidence is not rewarded at all.

The baseline of the paper, and the start of ReDoubt. The only method with a KL penalty by default.
"""

from typing import Literal

from calibsft.rl.method import Group, Method, SegmentRewards
from calibsft.rl.options import AnswerIsRewarded, DividesByDeviation, SamplesDynamically
from calibsft.rl.settings import Kl


class RlvrSettings(AnswerIsRewarded, DividesByDeviation, SamplesDynamically):
    name: Literal["rlvr"] = "rlvr"
    kl: Kl = 1e-3


def rewards(group: Group, settings: RlvrSettings) -> SegmentRewards:
    return SegmentRewards.everywhere(group.well_formed_G + group.counted_G.astype(float))


RLVR = Method("rlvr", "RLVR", rewards, RlvrSettings, malformed="0")
