"""Self-consistency: the answer that most samples of a question agree on, with the mean confidence of those samples.

Answers to one question are the same if their texts are, or if its grader says so with the first one in the place of
the gold; the mathematical ones are compared in killable processes. The largest group wins, then the higher mean
confidence, then the one that was seen first, by sample. A response without an answer cannot vote. One row per question,
so its accuracy is that of the vote. The correct answer has no part in the grouping.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import groupby
from operator import itemgetter
from typing import Any

import polars as pl

from calibsft.artifacts import QUESTIONS
from calibsft.estimators.estimator import Estimator, Evaluated
from calibsft.progress import Progress
from calibsft.responses.formats import Format
from calibsft.schema import KEYS, QUESTION_KEYS, Grade
from calibsft.verify.grader import GradeItem
from calibsft.verify.math import MATH
from calibsft.verify.text import key, stripped
from calibsft.verify.verifier import Verifier

# Answers that could be compared with the gold; others, such as those out of time, are compared by their text alone.
COMPARABLE = (Grade.CORRECT, Grade.INCORRECT)
SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "split": pl.String,
    "dataset": pl.String,
    "question_id": pl.String,
    "answer": pl.String,
    "votes": pl.Int32,
    "samples": pl.Int32,
    "confidence": pl.Float64,
    "correct": pl.Boolean,
}


@dataclass(slots=True)
class Group:
    """Samples with one answer; `correct` is what was said of the first one, None where nothing was."""

    answer: str
    correct: bool | None
    comparable: bool
    confidences: list[Fraction]

    @property
    def confidence(self) -> Fraction:
        return sum(self.confidences, Fraction(0)) / len(self.confidences)


@dataclass(slots=True)
class Poll:
    """The votes on one question: groups, and answers that still wait to be compared, in the order seen.

    `first` is the row of the first sample, and `samples` is how many there are.
    """

    first: dict[str, Any]
    samples: int
    waiting: list[Group]
    groups: list[Group] = field(default_factory=list)

    def next_group(self) -> None:
        """Make a group of the first answer that waits."""
        self.groups.append(self.waiting.pop(0))

    def comparisons(self) -> list[GradeItem]:
        """The newest group's answer against each that waits and can be compared with it."""
        leader = self.groups[-1]
        return [
            GradeItem(self.first["kind"], leader.answer, other.answer, self.first["tolerance"])
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
                leader.confidences += other.confidences
            else:
                self.waiting.append(other)

    def winner(self) -> Group | None:
        """The group with most votes, then confidence, then the first; None where nobody voted."""
        return max(self.groups, key=lambda group: (len(group.confidences), group.confidence), default=None)


def estimate(evaluated: Evaluated, rows: pl.DataFrame) -> pl.DataFrame:
    """One row per question: the winning answer, its votes, and its mean confidence."""
    questions = pl.read_parquet(evaluated.rollouts / QUESTIONS).select(
        *QUESTION_KEYS, "tolerance", kind="grader"
    )
    asked = rows.select(*KEYS, "split", "answer", "confidence", "correct", "grade").join(
        questions, on=QUESTION_KEYS
    )
    parts = groupby(asked.sort(KEYS).iter_rows(named=True), key=itemgetter(*QUESTION_KEYS))
    polls = [_poll(list(samples), evaluated.format) for _, samples in parts]
    with Progress(f"{evaluated.label}, self-consistency", len(polls), "questions") as progress:
        _vote(polls, progress)
    return pl.DataFrame([_row(poll) for poll in polls], schema=SCHEMA)


def _poll(samples: Sequence[dict[str, Any]], confidence_format: Format) -> Poll:
    """The distinct texts among the answers to one question, in the order seen."""
    is_math = samples[0]["kind"] == MATH.name
    seen: dict[str, Group] = {}
    for sample in samples:
        if text := stripped(sample["answer"] or ""):
            word = text if is_math else key(text)
            comparable = is_math and sample["grade"] in COMPARABLE
            group = seen.setdefault(word, Group(text, sample["correct"], comparable, []))
            # Exact values: a mean must not depend on the order of its terms.
            stated = sample["confidence"]
            group.confidences.append(Fraction(0) if stated is None else confidence_format.exact(stated))
    return Poll(samples[0], len(samples), list(seen.values()))


def _vote(polls: Sequence[Poll], progress: Progress) -> None:
    """Group all answers, in rounds over all questions: in each, every question settles its next group."""
    progress.advance(sum(not poll.waiting for poll in polls))
    with Verifier() as verifier:
        while still := [poll for poll in polls if poll.waiting]:
            for poll in still:
                poll.next_group()
            grades = iter(verifier.grade_all([item for poll in still for item in poll.comparisons()]))
            for poll in still:
                poll.settle(grades)
            progress.advance(sum(not poll.waiting for poll in still))


def _row(poll: Poll) -> dict[str, Any]:
    found = {name: poll.first[name] for name in ("split", *QUESTION_KEYS)} | {"samples": poll.samples}
    winner = poll.winner()
    if winner is None:
        # No answer is graded as an empty one: wrong, unless nothing can be said of any answer to the question.
        return found | {"answer": None, "votes": 0, "confidence": None, "correct": poll.first["correct"]}
    return found | {
        "answer": winner.answer,
        "votes": len(winner.confidences),
        "confidence": float(winner.confidence),
        "correct": winner.correct,
    }


SELF_CONSISTENCY = Estimator("self-consistency", estimate)
