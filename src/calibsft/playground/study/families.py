"""The kinds of exercise: their share in pre-training and in the training pool, how one is drawn; and the benchmarks.

A benchmark asks one kind within a band of ranks, or the mix of the training pool.
"""

from dataclasses import dataclass
from random import Random

from calibsft.playground.study.digits import digit_sum, larger, sequence, sort
from calibsft.playground.study.exercise import Draw, Exercise, Picker
from calibsft.playground.study.facts import fact
from calibsft.playground.study.products import chain, cross, difference, product, sum_
from calibsft.playground.study.quotients import quotient, remainder


@dataclass(frozen=True, slots=True)
class Family:
    """One kind of exercise.

    Attributes
    ----------
    share
        Its weight among the lessons of pre-training.
    trained
        Its weight in the training pool; 0 for kinds that occur in pre-training only.
    """

    draw: Draw
    share: float
    trained: float = 0.0


FAMILIES = {
    "product": Family(product, 0.22, 0.5),
    "chain": Family(chain, 0.11, 0.15),
    "sum": Family(sum_, 0.07, 0.1),
    "difference": Family(difference, 0.08, 0.1),
    "quotient": Family(quotient, 0.11, 0.15),
    "cross": Family(cross, 0.07),
    "remainder": Family(remainder, 0.06),
    "larger": Family(larger, 0.07),
    "digit_sum": Family(digit_sum, 0.04),
    "sort": Family(sort, 0.04),
    "sequence": Family(sequence, 0.03),
    "fact": Family(fact, 0.10),
}

LESSON_SHARES = {name: family.share for name, family in FAMILIES.items()}
TRAINED_SHARES = {name: family.trained for name, family in FAMILIES.items() if family.trained}


def draw_exercise(
    random: Random, shares: dict[str, float], band: tuple[float, float] | None
) -> tuple[Exercise, float]:
    """An exercise of a kind drawn by its share, and its rarity."""
    name = random.choices(list(shares), list(shares.values()))[0]
    picker = Picker(random, band)
    return FAMILIES[name].draw(picker), picker.rarity
