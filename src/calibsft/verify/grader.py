"""What a grader is: a name, a version, and a function from (gold, answer) to a grade.

Aliases are handled here once, so that a grader only ever compares one gold with one answer. Does not
know any grader by name: they are listed in `calibsft.verify.GRADERS`.
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
    Grade.UNPARSED_GOLD,
)


def _undecided(gold: str, answer: str) -> Grade | None:
    return None


def _nothing_to_prepare() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Grader:
    """One way to decide whether an answer is right.

    Attributes
    ----------
    name, version
        What manifests record. Raise the version whenever any verdict may change.
    grade
        Compares one gold with one answer. `UNPARSED_GOLD` must depend on the gold alone: a gold that is
        unscored only for the wrong answers would raise the accuracy.
    isolated
        Whether `grade` may hang, crash or eat memory, and so must run in a worker process.
    quick
        Settles the easy cases of an isolated grader in bounded time and memory without a worker; None
        when it cannot tell.
    prepare
        Does slow imports; a worker calls it before the clock of its first item starts.
    """

    name: str
    version: int
    grade: Callable[[str, str], Grade]
    isolated: bool
    quick: Callable[[str, str], Grade | None] = _undecided
    prepare: Callable[[], None] = _nothing_to_prepare

    def grade_any(self, golds: tuple[str, ...], answer: str) -> Grade:
        """Grade `answer` against every alias; correct if any says so, else the most informative grade."""
        return _best(self.grade(gold, answer) for gold in golds)

    def grade_here(self, golds: tuple[str, ...], answer: str) -> Grade | None:
        """Grade without a worker, or return None when one is needed."""
        if not self.isolated:
            return self.grade_any(golds, answer)
        grades = [self.quick(gold, answer) for gold in golds]
        if Grade.CORRECT in grades:
            return Grade.CORRECT
        settled = [grade for grade in grades if grade is not None]
        return _best(settled) if len(settled) == len(grades) else None


def _best(grades: Iterable[Grade]) -> Grade:
    best = Grade.UNPARSED_GOLD
    for grade in grades:
        best = min(best, grade, key=_INFORMATIVE.index)
        if best is Grade.CORRECT:
            break
    return best
