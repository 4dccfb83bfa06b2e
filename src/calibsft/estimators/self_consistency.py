"""Self-consistency: the answer that most samples of a question agree on, with the mean confidence of those samples.

`verify.equal_answers` decides which answers are the same. The largest group wins; of equal ones that with the higher mean
confidence, then that with the first sample. A response without an answer has no vote. There is one row per question, so
accuracy is that of the vote.
"""

from fractions import Fraction
from itertools import groupby
from operator import itemgetter
from typing import Any

import polars as pl

from calibsft.artifacts import QUESTIONS
from calibsft.estimators.estimator import Estimator, Evaluated
from calibsft.progress import Progress
from calibsft.responses.formats import Format
from calibsft.schema import KEYS, QUESTION_KEYS
from calibsft.verify.equal_answers import Group, Poll, group_answers, poll
from calibsft.verify.verifier import Verifier

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
Samples = list[dict[str, Any]]


def estimate(evaluated: Evaluated, rows: pl.DataFrame) -> pl.DataFrame:
    """One row per question: the winning answer, its votes, and its mean confidence."""
    questions = pl.read_parquet(evaluated.rollouts / QUESTIONS).select(
        *QUESTION_KEYS, "tolerance", kind="grader"
    )
    asked = rows.select(*KEYS, "split", "answer", "confidence", "correct", "grade").join(
        questions, on=QUESTION_KEYS
    )
    parts = groupby(asked.sort(KEYS).iter_rows(named=True), key=itemgetter(*QUESTION_KEYS))
    voters = [list(samples) for _, samples in parts]
    polls = [_poll(samples) for samples in voters]
    label = f"{evaluated.label}, self-consistency"
    with Progress(label, len(polls), "questions") as progress, Verifier() as verifier:
        group_answers(polls, verifier, progress.advance)
    winners = [_row(samples, poll, evaluated.format) for samples, poll in zip(voters, polls, strict=True)]
    return pl.DataFrame(winners, schema=SCHEMA)


def _poll(samples: Samples) -> Poll:
    answers = ((sample["answer"], sample["grade"]) for sample in samples)
    return poll(samples[0]["kind"], samples[0]["tolerance"], answers)


def _row(samples: Samples, poll: Poll, confidence_format: Format) -> dict[str, Any]:
    found = {name: samples[0][name] for name in ("split", *QUESTION_KEYS)} | {"samples": len(samples)}
    if not poll.groups:
        # A missing answer is graded like an empty one: wrong, unless no answer to the question can be graded.
        return found | {"answer": None, "votes": 0, "confidence": None, "correct": samples[0]["correct"]}
    means = [_mean_confidence(samples, group, confidence_format) for group in poll.groups]
    # `max` keeps the first of several that are equal in both.
    mean, winner = max(
        zip(means, poll.groups, strict=True), key=lambda found: (len(found[1].members), found[0])
    )
    return found | {
        "answer": winner.answer,
        "votes": len(winner.members),
        "confidence": float(mean),
        "correct": samples[winner.members[0]]["correct"],
    }


def _mean_confidence(samples: Samples, group: Group, confidence_format: Format) -> Fraction:
    """The exact mean, which does not depend on the order of its terms. An unreadable confidence counts as 0."""
    stated = [samples[member]["confidence"] for member in group.members]
    exact = [Fraction(0) if value is None else confidence_format.exact(value) for value in stated]
    return sum(exact, Fraction(0)) / len(exact)


SELF_CONSISTENCY = Estimator("self-consistency", estimate)
