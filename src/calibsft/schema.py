"""The records that flow from one stage to the next: one type per arrow, all frozen.

question -> Rollout -> Verdict -> SftExample. A row is identified by (dataset, question_id, sample) throughout, so stages
join on that key and nothing depends on row order. Confidences and targets are exact rationals inside the program
(`fractions.Fraction`) and become floats only in files.

This module holds data only: how records are stored is `artifacts`, how users' files become tables is `files`.
"""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

SCHEMA_VERSION = 6

# What identifies a response in every table, and what identifies its question.
KEYS = ("dataset", "question_id", "sample")
QUESTION_KEYS = KEYS[:2]
# Exact rationals are two columns of integers: a response's label, and the group that balancing counts it in.
LABEL = ("label_numerator", "label_denominator")
STRATUM = ("stratum_numerator", "stratum_denominator")


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and what counts as right; `tolerance` is the absolute error that a number may have."""

    id: str
    text: str
    gold: str | tuple[str, ...]
    grader: str
    dataset: str
    tolerance: str = ""

    @property
    def golds(self) -> tuple[str, ...]:
        return (self.gold,) if isinstance(self.gold, str) else self.gold


@dataclass(frozen=True, slots=True)
class Rollout:
    """One sampled response, with what was measured while sampling it.

    `token_ids` are the sampled ids including a final end-of-sequence token when there was one; `response` is their exact
    text without it. `mean_logprob` is the mean token log-probability under the generator at temperature 1, None when some
    tokens were not sampled; `confidence_entropy` the mean next-token entropy in nats over the tokens of the confidence
    value, None when there is no such value. `forced_answer` is what the model answered when an unfinished response was made
    to end, where it was. `finish_reason` is "stop", "length" or what a server says. `error` says why a server refused to
    respond; the response is then empty.
    """

    dataset: str
    question_id: str
    sample: int
    response: str
    token_ids: tuple[int, ...]
    finished: bool
    mean_logprob: float | None
    confidence_entropy: float | None
    forced_answer: str | None = None
    finish_reason: str = ""
    error: str | None = None


class Ending(StrEnum):
    """How a response came to its end."""

    FINISHED = "finished"
    FORCED = "forced"  # it hit its length limit and the model was then made to answer
    TRUNCATED = "truncated"  # it hit its length limit


class Grade(StrEnum):
    """What a grader says of an answer. Whatever is scored and not `correct` counts as wrong."""

    CORRECT = "correct"
    INCORRECT = "incorrect"
    UNPARSED_ANSWER = "unparsed_answer"
    UNPARSED_GOLD = "unparsed_gold"
    TIMEOUT = "timeout"
    TOO_LARGE = "too_large"
    ERROR = "error"
    UNJUDGED = "unjudged"  # the judge model gave no readable verdict

    @property
    def scored(self) -> bool:
        """Whether this says anything about the answer, rather than about the gold or the judge."""
        return self not in (Grade.UNPARSED_GOLD, Grade.UNJUDGED)


@dataclass(frozen=True, slots=True)
class Verdict:
    """One response, parsed and graded.

    `reason` is the parser's code, "ok" for a well-formed response. `confidence` is the stated one as scores read it,
    None where it is unreadable. `grader` is what graded the answer, by name and version. `ending` decides whether a
    right answer counts in its question's success rate.
    """

    dataset: str
    question_id: str
    sample: int
    grade: Grade
    reason: str
    answer: str | None
    confidence: Fraction | None
    grader: str
    ending: Ending

    @property
    def correct(self) -> bool:
        return self.grade is Grade.CORRECT

    @property
    def well_formed(self) -> bool:
        return self.reason == "ok"
