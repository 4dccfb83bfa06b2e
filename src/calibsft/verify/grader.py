"""What a grader is: a name, a version, and a function from an item - golds and answer - to a grade.

Most graders compare one gold with one answer; `any_alias` lifts such a comparison to a list of aliases. Does
not know any grader by name: they are listed in `calibsft.verify.GRADERS`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from calibsft.schema import Grade

# From most to least informative: an answer judged against one alias counts, even if others were unreadable.
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
    """One answer to grade.

    Attributes
    ----------
    kind
        The grader's name.
    gold
        The reference, or several: aliases of which any may match, except for graders of sets.
    answer
        The answer alone, without the reasoning or the tags around it.
    tolerance
        Absolute error that a number may have, as decimal text; several, separated by commas, belong to the
        gold's values in turn. Empty for none.
    question
        What was asked; only a judge reads it.
    """

    kind: str
    gold: str | tuple[str, ...]
    answer: str
    tolerance: str = ""
    question: str = ""

    @property
    def golds(self) -> tuple[str, ...]:
        return (self.gold,) if isinstance(self.gold, str) else tuple(self.gold)


def _undecided(item: GradeItem) -> Grade | None:
    return None


def _nothing_to_prepare() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Grader:
    """One way to decide whether an answer is right.

    Attributes
    ----------
    name, version
        What artifacts record. Raise the version whenever any verdict may change.
    grade
        Judges one item. `UNPARSED_GOLD` must depend on the golds alone: a gold that is unscored only for
        the wrong answers would raise the accuracy.
    isolated
        Whether `grade` may hang, crash or eat memory, and so must run in a worker process.
    quick
        Settles the easy cases of an isolated grader in bounded time and memory without a worker; None
        when it cannot tell.
    prepare
        Does slow imports; a worker calls it before the clock of its first item starts.
    symmetric
        Whether two answers are the same if `grade` takes one for right with the other as the gold; else they are if their
        words are. Votes and self-consistency compare so.
    gold_answers
        The answers that state the golds, which `calibsft validate` grades.
    """

    name: str
    version: int
    grade: Callable[[GradeItem], Grade]
    isolated: bool = False
    quick: Callable[[GradeItem], Grade | None] = _undecided
    prepare: Callable[[], None] = _nothing_to_prepare
    symmetric: bool = False
    gold_answers: Callable[[tuple[str, ...]], list[str]] = list

    def grade_here(self, item: GradeItem) -> Grade | None:
        """Grade without a worker, or return None when one is needed."""
        return self.quick(item) if self.isolated else self.grade(item)


def any_alias(compare: Callable[[str, str], Grade]) -> Callable[[GradeItem], Grade]:
    """A grader that takes an answer as right if it matches any of the golds."""
    return lambda item: best(compare(gold, item.answer) for gold in item.golds)


def best(grades: Iterable[Grade]) -> Grade:
    """Correct if any grade is, else the most informative; unparsed gold if there is none."""
    found = Grade.UNPARSED_GOLD
    for grade in grades:
        found = min(found, grade, key=_INFORMATIVE.index)
        if found is Grade.CORRECT:
            break
    return found
