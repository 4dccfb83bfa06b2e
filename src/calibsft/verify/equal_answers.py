"""Group the responses to one question by their answers.

Answers are the same if their words are the same. Where the question's grader is symmetric, they are the same if their texts
are, or if the grader says so with the first answer as the gold. A response without an answer is in no group. The gold is
not used.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from calibsft.schema import Grade
from calibsft.verify.grader import GradeItem
from calibsft.verify.pool import find_grader
from calibsft.verify.text import key, stripped
from calibsft.verify.verifier import Verifier

# Answers that could be compared with the gold. Others, for example after a time-out, are compared by their text alone.
COMPARABLE = (Grade.CORRECT, Grade.INCORRECT)


@dataclass(slots=True)
class Group:
    """Responses with one answer: its first text, and the positions of these responses."""

    answer: str
    comparable: bool
    members: list[int]


@dataclass(slots=True)
class Poll:
    """The answers to one question: groups, and answers that wait to be compared, in their order."""

    kind: str
    tolerance: str
    waiting: list[Group]
    groups: list[Group] = field(default_factory=list)

    def next_group(self) -> None:
        """Start a group with the first waiting answer."""
        self.groups.append(self.waiting.pop(0))

    def comparisons(self) -> list[GradeItem]:
        """The newest group's answer against each waiting answer that can be compared with it."""
        leader = self.groups[-1]
        return [
            GradeItem(self.kind, leader.answer, other.answer, self.tolerance)
            for other in self.waiting
            if leader.comparable and other.comparable
        ]

    def settle(self, grades: Iterator[Grade]) -> None:
        """Move the answers that equal the newest group's answer into that group."""
        leader, others, self.waiting = self.groups[-1], self.waiting, []
        for other in others:
            if leader.comparable and other.comparable and next(grades) is Grade.CORRECT:
                leader.members += other.members
            else:
                self.waiting.append(other)


def poll(kind: str, tolerance: str, answers: Iterable[tuple[str | None, str]]) -> Poll:
    """The distinct answers to one question, in their order; `answers` has the answer and grade of each response."""
    symmetric = find_grader(kind).symmetric
    groups: dict[str, Group] = {}
    for position, (answer, grade) in enumerate(answers):
        if text := stripped(answer or ""):
            comparable = symmetric and grade in COMPARABLE
            group = groups.setdefault(text if symmetric else key(text), Group(text, comparable, []))
            group.members.append(position)
    return Poll(kind, tolerance, list(groups.values()))


def group_answers(
    polls: Sequence[Poll], verifier: Verifier, on_grouped: Callable[[int], None] | None = None
) -> None:
    """Group all answers. In each round every question completes its next group.

    `on_grouped` takes how many more questions are done.
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
