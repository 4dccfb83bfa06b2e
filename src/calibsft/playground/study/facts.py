"""Facts to know by heart: every name, of three digits, has a friend and a number.

fact  @573 -> 573-208 -> 208
      #573 -> 573-47  -> 47

Common names occur often in pre-training and rare ones seldom. Unlike the other exercises, facts cannot be held
out: a fact that was never seen is not known.
"""

from functools import cache
from random import Random

from calibsft.playground.study.exercise import Exercise, Picker, Ranked

NAMES = 160
WORLD_SEED = 43


@cache
def ranked_names() -> Ranked[str]:
    names = [f"{name:03d}" for name in range(1000)]
    Random(f"{WORLD_SEED} names").shuffle(names)
    return Ranked(names[:NAMES], 1.0)


@cache
def friends() -> dict[str, str]:
    names = list(ranked_names().parts)
    others = names.copy()
    Random(f"{WORLD_SEED} friends").shuffle(others)
    return dict(zip(names, others, strict=True))


@cache
def numbers() -> dict[str, str]:
    random = Random(f"{WORLD_SEED} numbers")
    return {name: f"{random.randrange(100):02d}" for name in ranked_names().parts}


def fact(picker: Picker) -> Exercise:
    name = picker.pick(ranked_names())
    sign, answer = picker.random.choice((("@", friends()[name]), ("#", numbers()[name])))
    return Exercise(f"{sign}{name}", f"{name}-{answer}", answer)
