"""Whether a method goes with its settings and with a confidence format; asked before any model is loaded."""

from dataclasses import replace

import numpy as np

from calibsft.errors import InputError
from calibsft.responses.formats import Format
from calibsft.rl.method import Group, Method
from calibsft.rl.methods import METHODS
from calibsft.rl.settings import RlSettings

# Any group with right and wrong responses will do; the confidences are digits, which all methods take.
_SAMPLE = Group(
    np.array([True, False, False]), np.array([2, 5, 8]) / 9, np.array([True, True, True]), success_rate=0.5
)


def require_format(method: Method, confidence_format: Format) -> None:
    """Refuse a format that the method's rewards are not defined for."""
    if method.formats and confidence_format.name not in method.formats:
        raise InputError(
            f"{method.name} is defined for the {' or '.join(method.formats)} format, not for"
            f" '{confidence_format.name}'; use --format {method.formats[0]} and a model that was trained for it"
        )


def require_fitting(method: Method, settings: RlSettings) -> None:
    """Refuse settings that mean nothing for the method, or nothing without another one."""
    for name, why in ignored_settings(method).items():
        if _is_set(settings, name):
            takers = [other.name for other in METHODS.values() if name not in ignored_settings(other)]
            raise InputError(
                f"rl.{name} means nothing for {method.name}, {why}; leave it out: it is for {', '.join(takers)}"
                " (in a recipe, give it to them alone under rl_methods)"
            )
    if _is_set(settings, "eval_questions") and settings.eval_every is None:
        raise InputError("rl.eval_questions means nothing without rl.eval_every; give both, or leave it out")


def ignored_settings(method: Method) -> dict[str, str]:
    """The settings that change nothing of what `method` learns, each with the reason in words."""
    rewards, alone = (method.rewards(replace(_SAMPLE, leave_one_out=left_out)) for left_out in (False, True))
    same = [_same(getattr(rewards, part), getattr(alone, part)) for part in ("answer_G", "confidence_G")]
    found = {
        "keep_unanimous": (
            method.is_scalar or not method.dynamic_sampling,
            "which has no reward of its own for confidence",
        ),
        "segment_loss": (method.is_scalar, "which gives all tokens of a response the same reward"),
        "leave_one_out": (all(same), "which does not look at the success rate of the group"),
        "mean_only": (not method.divide_by_std, "which never divides by the deviation of the group"),
        "overlong_buffer": (rewards.answer_G is None, "which gives the answer no reward to take it from"),
    }
    return {name: why for name, (ignored, why) in found.items() if ignored}


def _same(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    return one is other is None or np.array_equal(one, other)  # type: ignore[arg-type]


def _is_set(settings: RlSettings, name: str) -> bool:
    return bool(getattr(settings, name) != RlSettings.model_fields[name].default)
