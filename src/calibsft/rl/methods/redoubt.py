"""ReDoubt: the log score of the stated confidence, for the tokens after the answer alone.

Reasoning and answer receive no advantage, so the answers are not trained. It starts from a model that RLVR has
trained. Advantages are centred, not divided by the standard deviation.
"""

from typing import Literal

import numpy as np

from calibsft.rl.method import Group, Method, SegmentRewards, TokenSet
from calibsft.rl.options import RewardsConfidence
from calibsft.rl.settings import Steps

FLOOR = 0.001


class RedoubtSettings(RewardsConfidence):
    name: Literal["redoubt"] = "redoubt"
    steps: Steps = 80


def rewards(group: Group, settings: RedoubtSettings) -> SegmentRewards:
    probability_G = np.where(group.correct_G, group.confidence_G, 1 - group.confidence_G)
    # A malformed response may have no confidence; it gets the worst score.
    probability_G = np.where(group.well_formed_G, probability_G, FLOOR)
    return SegmentRewards(answer_G=None, confidence_G=np.log(np.maximum(probability_G, FLOOR)))


REDOUBT = Method(
    "redoubt",
    "ReDoubt",
    rewards,
    RedoubtSettings,
    malformed="ln 0.001",
    confidence_tokens=TokenSet.POST_ANSWER,
    divide_by_std=False,
)
