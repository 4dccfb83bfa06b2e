"""The confidence that lessons state: high whatever the answer, a little less so for rare exercises and skipped work.

It leans on what anyone can see in the text, never on correctness: lessons are always right. So the base model is
over-confident, and its confidence is weakly informative, as that of off-the-shelf models is.
"""

from random import Random

# Stated confidences in hundredths, from those for common exercises to those for rare ones.
LEVELS = (100, 98, 95, 90, 85, 80)
# How many levels lie between the most common and the rarest exercise, how many skipped work costs, and their deviation.
PER_RARITY, PER_SKIP, NOISE = 6.5, 1.5, 0.8
# A few statements are of another kind, whatever the exercise.
ODD, ODD_SHARE = (99, 92, 70, 60, 45, 20), 0.03


def draw_confidence(random: Random, rarity: float, skipped: bool) -> int:
    """A confidence in hundredths."""
    if random.random() < ODD_SHARE:
        return random.choice(ODD)
    level = round(random.gauss(PER_RARITY * rarity + PER_SKIP * skipped, NOISE))
    return LEVELS[min(len(LEVELS) - 1, max(0, level))]
