"""Grader `hotpotqa`: the same words as `text` counts them, or the same value as `math` does.

Its golds are names, dates and numbers, and 0.5 is an answer where the gold is 1/2. Runs in a worker wherever the
second reading needs computer algebra. Adds no rule of its own.
"""

from calibsft.schema import Grade
from calibsft.verify.grader import GradeItem, Grader, best
from calibsft.verify.math import MATH
from calibsft.verify.text import TEXT


def grade(item: GradeItem) -> Grade:
    """Judge an answer in both readings; a gold is unreadable only if it is so in both."""
    return best(reading.grade(item) for reading in (TEXT, MATH))


def quick(item: GradeItem) -> Grade | None:
    """The grade, where the words are the same or computer algebra is not needed to tell the values apart."""
    words = TEXT.grade(item)
    value = Grade.CORRECT if words is Grade.CORRECT else MATH.quick(item)
    return None if value is None else best((words, value))


HOTPOTQA = Grader("hotpotqa", version=1, grade=grade, isolated=True, quick=quick, prepare=MATH.prepare)
