"""Whether a rollout step has anything to learn from, decided for all processes together.

A process that kept no group trains on masked rows while the others train on theirs. The step is refused
only if no process has anything to learn from. All then raise the same error, so that none waits for another.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from calibsft.errors import InputError
from calibsft.rl.scoring import ScoredGroup


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one process's share of a step, in groups; small, because processes exchange it."""

    asked: int  # questions since training began
    generated: int
    all_right: int  # groups without a wrong response
    kept: int  # groups to train on
    well_formed: bool  # whether any response keeps to the format
    reasons: Counter[str]  # of the parser


def outcome_of(asked: int, generated: Sequence[ScoredGroup], kept: int) -> Outcome:
    return Outcome(
        asked,
        len(generated),
        sum(bool(scored.group.counted_G.all()) for scored in generated),
        kept,
        any(bool(scored.group.well_formed_G.any()) for scored in generated),
        Counter(response.reason for scored in generated for response in scored.responses),
    )


def require_learnable(outcomes: Sequence[Outcome]) -> None:
    """Refuse a step from which no process has anything to learn."""
    generated = sum(outcome.generated for outcome in outcomes)
    if not generated:
        raise InputError(
            "no gold answer of the questions asked could be read, or the judge gave no verdict, so nothing is graded;"
            " fix the gold answers, or take a judge that says yes or no"
        )
    if not any(outcome.well_formed for outcome in outcomes):
        raise _malformed(outcomes, generated)
    if not any(outcome.kept for outcome in outcomes):
        right = sum(outcome.all_right for outcome in outcomes)
        raise InputError(
            f"no question had both right and wrong responses in {generated} groups ({right} all right,"
            f" {generated - right} all wrong); take questions nearer to what the model can do, or larger groups"
        )


def _malformed(outcomes: Sequence[Outcome], generated: int) -> InputError:
    reasons = sum((outcome.reasons for outcome in outcomes), Counter[str]())
    often, _ = reasons.most_common(1)[0]
    remedy = (
        "start from a model that keeps to the format, for example after calibsft sft"
        if sum(outcome.asked for outcome in outcomes) <= generated
        else "the model kept to the format before, so lower rl.learning_rate"
    )
    return InputError(
        f"all {reasons.total()} responses of this rollout step are malformed (most often: {often}), so there is nothing to"
        f" learn from; {remedy}"
    )
