"""Whether a method goes with its settings and with a confidence format; asked before any model is loaded."""

from calibsft.errors import InputError
from calibsft.recipe import RlSettings
from calibsft.responses.formats import Format
from calibsft.rl.method import Method
from calibsft.training.watchers import require_watchers


def require_format(method: Method, confidence_format: Format) -> None:
    """Refuse a format that the method's rewards are not defined for."""
    if method.formats and confidence_format.name not in method.formats:
        raise InputError(
            f"{method.name} is defined for the {' or '.join(method.formats)} format, not for"
            f" '{confidence_format.name}'; use --format {method.formats[0]} and a model that was trained for it"
        )


def require_fitting(method: Method, settings: RlSettings) -> None:
    """Refuse settings that mean nothing for the method."""
    if settings.keep_unanimous and (method.is_scalar or not method.dynamic_sampling):
        raise InputError(
            f"rl.keep_unanimous means nothing for {method.name}, which has no reward of its own for confidence;"
            " leave it out, or use coca, dcpo or redoubt"
        )
    require_watchers(settings.report_to, "rl.report_to")
