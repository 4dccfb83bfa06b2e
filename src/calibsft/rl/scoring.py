"""From sampled responses to a scored group: parsed, graded, cut into segments.

Uses the same parser and verifier as training data and evaluations. Answers are graded in worker processes, so one that
hangs can spoil only its own verdict. Does not compute rewards.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from transformers import PreTrainedTokenizerBase

from calibsft.engines.engine import Completion, FloatArray
from calibsft.progress import warn
from calibsft.responses.formats import Format
from calibsft.responses.parse import Parsed, parse
from calibsft.rl.method import BoolArray, Group, TokenSet
from calibsft.rl.questions import TrainingQuestion
from calibsft.rl.token_sets import confidence_tokens
from calibsft.rollouts.read import text_offsets, value_entropy
from calibsft.schema import Grade
from calibsft.verify.verifier import Verifier, grade_item


@dataclass(frozen=True, slots=True, eq=False)
class Response:
    """One sampled response as training needs it.

    `token_ids` include the end-of-sequence token if there is one, and `logprobs_T` come from the policy that
    sampled them. `confidence_T` marks the tokens of the confidence segment. `reason` is the parser's code;
    `entropy` is the mean next-token entropy in nats over the confidence value, None without one.
    """

    token_ids: tuple[int, ...]
    logprobs_T: FloatArray
    confidence_T: BoolArray
    reason: str
    entropy: float | None


@dataclass(frozen=True, slots=True, eq=False)
class ScoredGroup:
    """All responses to one question in one rollout step; `group` is what the method sees of them."""

    question_id: str
    prompt_ids: tuple[int, ...]
    responses: tuple[Response, ...]
    group: Group


class Scorer:
    """Scores the completions of one training run; `end_ids` are all ids that end a response."""

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        end_ids: tuple[int, ...],
        confidence_format: Format,
        token_set: TokenSet,
        verifier: Verifier,
    ) -> None:
        self._tokenizer, self._end_ids, self._format = tokenizer, end_ids, confidence_format
        self._token_set, self._verifier = token_set, verifier
        self._pieces: dict[int, str] = {}
        self._warned = False

    def score(
        self, questions: Sequence[TrainingQuestion], completions: Sequence[Sequence[Completion]]
    ) -> list[ScoredGroup | None]:
        """One group per question; None for a question of which a response cannot be graded."""
        read = [[self._read(completion) for completion in row] for row in completions]
        items = [
            grade_item(question.kind, question.golds, parsed.answer, question.tolerance, question.text)
            for question, row in zip(questions, read, strict=True)
            for parsed, _ in row
        ]
        grades = iter(self._verifier.grade_all(items))
        groups: list[ScoredGroup | None] = []
        for question, row in zip(questions, read, strict=True):
            graded = [next(grades) for _ in row]
            scored = all(grade.scored for grade in graded)
            groups.append(self._group(question, row, graded) if scored else None)
            if not (scored or self._warned):
                self._warned = True
                warn(f"rl: {_unscored(question, graded)}; such questions are left out (reported once)")
        return groups

    def _read(self, completion: Completion) -> tuple[Parsed, Response]:
        ids = completion.token_ids
        offsets = text_offsets(self._tokenizer, completion, self._end_ids, self._pieces)
        parsed = parse(offsets.text, self._format, finished=completion.finished)
        marks_T = confidence_tokens(offsets, len(ids), self._token_set)
        entropy = value_entropy(offsets, parsed, completion)
        return parsed, Response(ids, completion.logprobs, marks_T, parsed.reason.value, entropy)

    def _group(
        self, question: TrainingQuestion, row: Sequence[tuple[Parsed, Response]], grades: Sequence[Grade]
    ) -> ScoredGroup:
        group = Group(
            correct_G=np.array([grade is Grade.CORRECT for grade in grades]),
            confidence_G=np.array([parsed.confidence for parsed, _ in row], dtype=float),
            well_formed_G=np.array([parsed.ok for parsed, _ in row]),
            success_rate=question.success_rate,
        )
        return ScoredGroup(question.id, question.prompt_ids, tuple(response for _, response in row), group)


def _unscored(question: TrainingQuestion, grades: Sequence[Grade]) -> str:
    """Why some responses to `question` cannot be graded."""
    if Grade.UNJUDGED in grades:
        return f"the judge gave no verdict on a response to question '{question.id}'"
    return f"the gold answer of question '{question.id}' cannot be read"
