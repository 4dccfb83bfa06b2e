"""Facts to know by heart: every name has a friend and a number.

fact     @ab  -> ab-cd -> cd
         #ab  -> ab-47 -> 47
two_hop  #@ab -> ab-cd -> 47   the number of the friend
         @@ab -> ab-cd -> ef   the friend of the friend

Common names occur often in pre-training and rare ones seldom. Unlike the other exercises, facts cannot be held
out: a fact that was never seen is not known. Two hops can.
"""

from functools import cache
from random import Random

from calibsft.playground.study.exercise import Exercise, Picker, Ranked
from calibsft.playground.study.symbols import LETTERS

NAMES = 160
WORLD_SEED = 43


@cache
def ranked_names() -> Ranked[str]:
    names = [a + b for a in LETTERS for b in LETTERS]
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
    sign, answer = _asked(picker, name)
    return Exercise(f"{sign}{name}", f"{name}-{answer}", answer)


def two_hop(picker: Picker) -> Exercise:
    name = picker.pick(ranked_names())
    friend = friends()[name]
    sign, answer = _asked(picker, friend)
    return Exercise(f"{sign}@{name}", f"{name}-{friend}", answer)


def _asked(picker: Picker, name: str) -> tuple[str, str]:
    """Which of the two facts about a name is asked, and the fact."""
    return picker.random.choice((("@", friends()[name]), ("#", numbers()[name])))
