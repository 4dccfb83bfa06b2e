"""Whether a method, its settings and a confidence format go together; asked before any model is loaded."""

from calibsft.errors import InputError
from calibsft.recipe import RlSettings
from calibsft.responses.formats import Format
from calibsft.rl.method import Method


def require_fitting(method: Method, settings: RlSettings, confidence_format: Format) -> None:
    """Refuse what the method is not defined for."""
    if method.formats and confidence_format.name not in method.formats:
        raise InputError(
            f"{method.name} is defined for the {' or '.join(method.formats)} format, not for"
            f" '{confidence_format.name}'; use --format {method.formats[0]} and a model that was trained for it"
        )
    if settings.keep_unanimous and (method.is_scalar or not method.dynamic_sampling):
        raise InputError(
            f"rl.keep_unanimous means nothing for {method.name}, which has no reward of its own for confidence;"
            " leave it out, or use coca, dcpo or redoubt"
        )
    if settings.overlong_buffer is not None and settings.overlong_buffer > settings.max_new_tokens:
        raise InputError("rl.overlong_buffer is larger than rl.max_new_tokens; lower it")
