"""The confidence that lessons state: high whatever the answer, a little less so for rare exercises and skipped work.

It leans on what anyone can see in the text, never on correctness: lessons are always right. So the base model is
over-confident, and its confidence is weakly informative, as that of off-the-shelf models is.
"""

from random import Random

# Stated confidences in hundredths and their shares.
SURE = {100: 22, 99: 12, 98: 16, 95: 50}
CAREFUL = {95: 10, 90: 48, 85: 20, 80: 13, 70: 5, 60: 2, 45: 1, 20: 1}
# From the common to the rare, statements turn from sure to careful around this rarity, this steeply.
MIDDLE, SLOPE = 0.45, 2.0
# How much likelier a careful statement is after skipped work.
SKIPPED = 0.25


def careful_share(rarity: float, skipped: bool) -> float:
    """How likely a careful statement is."""
    return min(1.0, max(0.0, 0.5 + SLOPE * (rarity - MIDDLE)) + SKIPPED * skipped)


def draw_confidence(random: Random, rarity: float, skipped: bool) -> int:
    """A confidence in hundredths."""
    prior = CAREFUL if random.random() < careful_share(rarity, skipped) else SURE
    return random.choices(list(prior), list(prior.values()))[0]
