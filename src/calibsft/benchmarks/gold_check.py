"""Grade every gold against itself: a gold that fails here counts as wrong, or not at all, in every response.

Its grader says which answers state a gold. Does not check whether a gold is true.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from calibsft.schema import Grade, Question
from calibsft.verify import GradeItem, grade_all
from calibsft.verify.grader import OnProgress
from calibsft.verify.pool import find_grader


@dataclass(frozen=True, slots=True)
class GoldFailure:
    """An answer that states a gold, and that its own grader does not accept."""

    question_id: str
    answer: str
    grade: Grade


@dataclass(frozen=True, slots=True)
class GoldCheck:
    """The result of checking a benchmark's golds; a question passes if all its golds pass in every form."""

    questions: int
    answers: int
    failures: tuple[GoldFailure, ...]

    @property
    def passed(self) -> int:
        return self.questions - len({failure.question_id for failure in self.failures})


def check_golds(questions: Sequence[Question], on_progress: OnProgress | None = None) -> GoldCheck:
    """Answer every question with each of its golds, and grade the answers."""
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
