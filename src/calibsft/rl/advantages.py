"""From rewards to advantages: per response and segment, then per token.

Group-relative: a response is compared only with the other responses to its question. A group with equal rewards has
advantages of exactly 0, not rounding noise divided by a tiny deviation.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from calibsft.errors import InputError
from calibsft.rl.method import BoolArray, FloatArray, Group, Method, SegmentRewards
from calibsft.rl.methods import get_method, method_settings

STD_FLOOR = 1e-4
# Smaller differences are rounding errors, even if the caller's confidences have single precision: rewards are sums and
# squares of two-decimal numbers of order 1.
EQUAL_WITHIN = 1e-7
DIGIT_STEPS = 9


@dataclass(frozen=True, slots=True, eq=False)
class SegmentAdvantages:
    """One advantage per response for its answer tokens and one for its confidence tokens."""

    answer_G: FloatArray
    confidence_G: FloatArray


def advantages_of(group: Group, method: Method, rewards: SegmentRewards) -> SegmentAdvantages:
    """Centre each segment's rewards in the group; divide by their standard deviation if the method does."""
    size = len(group.correct_G)
    parts = (rewards.answer_G, rewards.confidence_G)
    return SegmentAdvantages(*(_relative(part_G, method.divide_by_std, size) for part_G in parts))


def _relative(rewards_G: FloatArray | None, divide_by_std: bool, size: int) -> FloatArray:
    if rewards_G is None:
        return np.zeros(size)
    if not np.isfinite(rewards_G).all():
        raise InputError(
            f"a reward is not a finite number ({rewards_G.tolist()}); check that confidences lie in [0, 1]"
        )
    if np.ptp(rewards_G) <= EQUAL_WITHIN:
        return np.zeros(size)
    centred_G: FloatArray = rewards_G - rewards_G.mean()
    return centred_G / (rewards_G.std(ddof=1) + STD_FLOOR) if divide_by_std else centred_G


def advantages_G_T(segments: SegmentAdvantages, confidence_tokens_G_T: BoolArray) -> FloatArray:
    """Each token's advantage: that of the confidence segment for marked tokens, else that of the answer segment."""
    return np.where(confidence_tokens_G_T, segments.confidence_G[:, None], segments.answer_G[:, None])


def segment_advantages(
    method: str,
    correct: Sequence[Any],
    confidence: Sequence[Any],
    well_formed: Sequence[Any],
    q: float | None = None,
    *,
    divide_by_std: bool | None = None,
    **settings: Any,
) -> dict[str, list[float]]:
    """The advantages of one group of responses to one question, for use in any trainer.

    Parameters
    ----------
    method
        A name from `METHODS`: rlvr, rlcr, coca, dcpo, c3rl or redoubt.
    correct
        Whether each answer is right: booleans, or 0 and 1.
    confidence
        Stated confidences in [0, 1] (a digit d of the integer format is d/9); None or NaN if unreadable.
    well_formed
        Whether each response keeps to the format; only a malformed one may lack a confidence.
    q
        The question's success rate before RL; c3rl needs it.
    divide_by_std
        Whether advantages are divided by the group's standard deviation; None for the method's own rule.
    settings
        The method's settings. For example, `leave_one_out=True` for coca and dcpo compares a response with the success
        rate of the others.

    Returns
    -------
    dict
        "answer" and "confidence": one advantage per response for the tokens of each segment. Both are the same for
        methods with one reward per response; redoubt's "answer" is exactly 0.

    Raises
    ------
    InputError
        Unknown method or setting, fewer than two responses, unequal lengths, or a value out of range.
    """
    chosen, given = get_method(method), method_settings(method, settings, "segment_advantages")
    correct, confidence, well_formed = (
        values.tolist() if hasattr(values, "tolist") else values  # arrays and tensors
        for values in (correct, confidence, well_formed)
    )
    if divide_by_std is not None:
        chosen = replace(chosen, divide_by_std=divide_by_std)
    group = _checked_group(chosen, correct, confidence, well_formed, q)
    found = advantages_of(group, chosen, chosen.rewards(group, given))
    return {"answer": found.answer_G.tolist(), "confidence": found.confidence_G.tolist()}


def _checked_group(
    method: Method,
    correct: Sequence[Any],
    confidence: Sequence[Any],
    well_formed: Sequence[Any],
    q: float | None,
) -> Group:
    if not len(correct) == len(confidence) == len(well_formed):
        raise InputError(
            f"correct, confidence and well_formed have {len(correct)}, {len(confidence)} and {len(well_formed)} entries;"
            " give one of each per response"
        )
    if len(correct) < 2:
        raise InputError(
            f"a group of {len(correct)} has nothing to compare a response with; give at least two responses"
        )
    if method.needs_success_rate and q is None:
        raise InputError(
            f"{method.name} needs q, the question's success rate before RL; give q=0.5 or the like"
        )
    if q is not None and not _is_share(q):
        raise InputError(f"q = {q!r} is not a success rate; give a number in [0, 1]")
    correct_G, well_formed_G = _booleans("correct", correct), _booleans("well_formed", well_formed)
    confidence_G = _confidences(confidence, well_formed_G)
    if method.formats == ("integer",):
        _require_digits(method, confidence_G[well_formed_G])
    return Group(correct_G, confidence_G, well_formed_G, q)


def _booleans(name: str, values: Sequence[Any]) -> BoolArray:
    for index, value in enumerate(values):
        if not isinstance(value, Real | np.bool_) or value not in (0, 1):  # True and False are 1 and 0
            raise InputError(f"{name}[{index}] = {value!r} is neither true nor false; give booleans")
    return np.array(values, dtype=bool)


def _confidences(values: Sequence[Any], well_formed_G: BoolArray) -> FloatArray:
    for index, value in enumerate(values):
        # Only NaN differs from itself.
        unreadable = value is None or (isinstance(value, Real) and value != value)
        if not (_is_share(value) or (unreadable and not well_formed_G[index])):
            raise InputError(
                f"confidence[{index}] = {value!r} is not a number in [0, 1]; a response without one must be marked malformed"
            )
    return np.array(values, dtype=float)  # NaN for None


def _is_share(value: Any) -> bool:
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    return is_number and bool(0 <= value <= 1)


def _require_digits(method: Method, confidence_N: FloatArray) -> None:
    """Refuse confidences that are not d/9: a method for digits would misread probabilities."""
    digits_N = DIGIT_STEPS * confidence_N
    off_N = np.abs(digits_N - np.rint(digits_N)) > 1e-6
    if off_N.any():
        raise InputError(
            f"{method.name} is defined for the integer format, whose confidences are d/9;"
            f" {confidence_N[off_N][0]:g} is not one"
        )
