"""Which responses to one question give the same answer.

Answers are the same if their words are; where the question's grader is symmetric, if their texts are or it says so with the
first one in the place of the gold. A response without an answer is in no group. The correct answer has no part in the
grouping.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from calibsft.schema import Grade
from calibsft.verify.grader import GradeItem
from calibsft.verify.pool import find_grader
from calibsft.verify.text import key, stripped
from calibsft.verify.verifier import Verifier

# Answers that could be compared with the gold; others, such as those out of time, are compared by their text alone.
COMPARABLE = (Grade.CORRECT, Grade.INCORRECT)


@dataclass(slots=True)
class Group:
    """Responses with one answer: its text as first seen, and the positions of those who gave it."""

    answer: str
    comparable: bool
    members: list[int]


@dataclass(slots=True)
class Poll:
    """The answers to one question: groups, and answers that still wait to be compared, in the order seen."""

    kind: str
    tolerance: str
    waiting: list[Group]
    groups: list[Group] = field(default_factory=list)

    def next_group(self) -> None:
        """Make a group of the first answer that waits."""
        self.groups.append(self.waiting.pop(0))

    def comparisons(self) -> list[GradeItem]:
        """The newest group's answer against each that waits and can be compared with it."""
        leader = self.groups[-1]
        return [
            GradeItem(self.kind, leader.answer, other.answer, self.tolerance)
            for other in self.waiting
            if leader.comparable and other.comparable
        ]

    def settle(self, grades: Iterator[Grade]) -> None:
        """Take what equals the newest group's answer into that group."""
        leader, others = self.groups[-1], self.waiting
        self.waiting = []
        for other in others:
            compared = leader.comparable and other.comparable
            if compared and next(grades) is Grade.CORRECT:
                leader.members += other.members
            else:
                self.waiting.append(other)


def poll(kind: str, tolerance: str, answers: Iterable[tuple[str | None, str]]) -> Poll:
    """The distinct texts among the answers to one question, in the order seen.

    Parameters
    ----------
    kind, tolerance
        The question's grader and the error that it allows.
    answers
        Each response's answer, None for none, and its grade.
    """
    symmetric = find_grader(kind).symmetric
    seen: dict[str, Group] = {}
    for position, (answer, grade) in enumerate(answers):
        if text := stripped(answer or ""):
            comparable = symmetric and grade in COMPARABLE
            group = seen.setdefault(text if symmetric else key(text), Group(text, comparable, []))
            group.members.append(position)
    return Poll(kind, tolerance, list(seen.values()))


def group_answers(
    polls: Sequence[Poll], verifier: Verifier, on_grouped: Callable[[int], None] | None = None
) -> None:
    """Group all answers, in rounds over all questions: in each, every question settles its next group.

    `on_grouped` is told how many more questions are done.
    """
    report = on_grouped or (lambda count: None)
    report(sum(not poll.waiting for poll in polls))
    while still := [poll for poll in polls if poll.waiting]:
        for poll in still:
            poll.next_group()
        grades = iter(verifier.grade_all([item for poll in still for item in poll.comparisons()]))
        for poll in still:
            poll.settle(grades)
        report(sum(not poll.waiting for poll in still))
