"""Grade every gold against itself: what fails here is wrong, or not counted, in every response.

Which answers state a gold is said by its grader. Does not judge whether a gold is true.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from calibsft.schema import Grade, Question
from calibsft.verify import GradeItem, grade_all
from calibsft.verify.pool import find_grader


@dataclass(frozen=True, slots=True)
class GoldFailure:
    """A gold that its own grader does not accept, as it was answered."""

    question_id: str
    answer: str
    grade: Grade


@dataclass(frozen=True, slots=True)
class GoldCheck:
    """What became of a benchmark's golds; a question passes if all its golds do, in every form."""

    questions: int
    answers: int
    failures: tuple[GoldFailure, ...]

    @property
    def passed(self) -> int:
        return self.questions - len({failure.question_id for failure in self.failures})


def check_golds(
    questions: Sequence[Question], on_progress: Callable[[int, int], None] | None = None
) -> GoldCheck:
    """Answer every question with each of its golds and grade that."""
    asked = [(question, answer) for question in questions for answer in gold_answers(question)]
    items = [GradeItem(q.grader, q.gold, answer, q.tolerance, q.text) for q, answer in asked]
    grades = grade_all(items, on_progress)
    failures = tuple(
        GoldFailure(question.id, answer, grade)
        for (question, answer), grade in zip(asked, grades, strict=True)
        if grade is not Grade.CORRECT
    )
    return GoldCheck(len(questions), len(asked), failures)


def gold_answers(question: Question) -> list[str]:
    """The answers that state a question's gold."""
    return find_grader(question.grader).gold_answers(question.golds)
