"""Grader `hotpotqa`: right if `text` or `math` says so.

Its golds are names, dates and numbers, so 0.5 is right where the gold is 1/2. Runs in a worker where `math` needs
computer algebra. Adds no rule of its own.
"""

from calibsft.schema import Grade
from calibsft.verify.grader import GradeItem, Grader, best
from calibsft.verify.math import MATH
from calibsft.verify.text import TEXT


def grade(item: GradeItem) -> Grade:
    """Grade by both; a gold is unreadable only if it is unreadable for both."""
    return best(reading.grade(item) for reading in (TEXT, MATH))


def quick(item: GradeItem) -> Grade | None:
    """The grade if the words are the same, or if the values can be compared without computer algebra."""
    words = TEXT.grade(item)
    value = Grade.CORRECT if words is Grade.CORRECT else MATH.quick(item)
    return None if value is None else best((words, value))


HOTPOTQA = Grader("hotpotqa", version=2, grade=grade, isolated=True, quick=quick, prepare=MATH.prepare)
