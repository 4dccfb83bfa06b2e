"""The types of grading: an item with golds and an answer, and a grader, which turns an item into a grade.

Most graders compare one gold with one answer; `any_alias` makes a grader of a list of aliases from that. Does not know
the graders: `calibsft.verify.GRADERS` lists them.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from calibsft.schema import Grade

# Takes how many items are settled so far, and how many there are.
OnProgress = Callable[[int, int], None]

# From most to least informative: the grade against one alias counts, even if other aliases were unreadable.
_INFORMATIVE = (
    Grade.CORRECT,
    Grade.INCORRECT,
    Grade.TIMEOUT,
    Grade.TOO_LARGE,
    Grade.ERROR,
    Grade.UNPARSED_ANSWER,
    Grade.UNJUDGED,
    Grade.UNPARSED_GOLD,
)


@dataclass(frozen=True, slots=True)
class GradeItem:
    """One answer to grade; the fields are the parameters of `calibsft.verify.grade`."""

    kind: str
    gold: str | tuple[str, ...]
    answer: str
    tolerance: str = ""
    question: str = ""

    @property
    def golds(self) -> tuple[str, ...]:
        return (self.gold,) if isinstance(self.gold, str) else tuple(self.gold)


@dataclass(frozen=True, slots=True)
class Grader:
    """One way to decide whether an answer is right.

    Attributes
    ----------
    name, version
        What artifacts record. Raise the version whenever any verdict may change.
    grade
        Grades one item. `UNPARSED_GOLD` must depend on the golds alone: a gold that is unscored only for wrong
        answers would raise the accuracy.
    isolated
        Whether `grade` may hang, crash or use too much memory, and so must run in a worker process.
    quick
        Grades the easy items of an isolated grader without a worker, in bounded time and memory; None for others.
    prepare
        Does slow imports; the worker host calls it once.
    symmetric
        Whether two answers are the same if `grade` finds one right with the other as the gold; without that they are the
        same if their words are. Votes and self-consistency compare answers so.
    gold_answers
        The answers that state the golds; `calibsft validate` grades them.
    """

    name: str
    version: int
    grade: Callable[[GradeItem], Grade]
    isolated: bool = False
    quick: Callable[[GradeItem], Grade | None] = lambda item: None
    prepare: Callable[[], None] = lambda: None
    symmetric: bool = False
    gold_answers: Callable[[tuple[str, ...]], list[str]] = list

    def grade_here(self, item: GradeItem) -> Grade | None:
        """The grade if no worker is needed, else None."""
        return self.quick(item) if self.isolated else self.grade(item)


def any_alias(compare: Callable[[str, str], Grade]) -> Callable[[GradeItem], Grade]:
    """A `grade` function: an answer is right if it matches any of the golds."""
    return lambda item: best(compare(gold, item.answer) for gold in item.golds)


def best(grades: Iterable[Grade]) -> Grade:
    """Correct if any grade is, else the most informative one; unparsed gold if there are none."""
    found = Grade.UNPARSED_GOLD
    for grade in grades:
        found = min(found, grade, key=_INFORMATIVE.index)
        if found is Grade.CORRECT:
            break
    return found
