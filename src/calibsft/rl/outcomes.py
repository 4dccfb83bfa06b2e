"""Whether a rollout step has anything to learn from; the error says what is missing, and what to do."""

from collections import Counter
from collections.abc import Sequence

from calibsft.errors import InputError
from calibsft.rl.scoring import ScoredGroup


def require_learnable(asked: int, generated: Sequence[ScoredGroup], kept: int) -> None:
    """Refuse a step from which there is nothing to learn.

    Parameters
    ----------
    asked : questions since training began.
    kept : groups to train on, also those that an earlier step left over.
    """
    if not generated:
        raise InputError(
            "no gold answer of the questions asked could be read, or the judge gave no verdict, so nothing is graded;"
            " fix the gold answers, or take a judge that says yes or no"
        )
    if not any(scored.group.well_formed_G.any() for scored in generated):
        raise _malformed(asked, generated)
    if not kept:
        right = sum(bool(scored.group.counted_G.all()) for scored in generated)
        raise InputError(
            f"no question had both right and wrong responses in {len(generated)} groups ({right} all right,"
            f" {len(generated) - right} all wrong); take questions nearer to what the model can do, or larger groups"
        )


def _malformed(asked: int, generated: Sequence[ScoredGroup]) -> InputError:
    reasons = Counter(response.reason for scored in generated for response in scored.responses)
    often, _ = reasons.most_common(1)[0]
    remedy = (
        "start from a model that keeps to the format, for example after calibsft sft"
        if asked <= len(generated)
        else "the model kept to the format before, so lower rl.learning_rate"
    )
    return InputError(
        f"all {reasons.total()} responses of this rollout step are malformed (most often: {often}), so there is nothing to"
        f" learn from; {remedy}"
    )
