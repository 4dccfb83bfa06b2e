"""Whether a method goes with its settings and with a confidence format; asked before any model is loaded."""

from importlib.util import find_spec

from calibsft.errors import InputError, unknown_name
from calibsft.recipe import RlSettings
from calibsft.responses.formats import Format
from calibsft.rl.method import Method

# Where training can be watched; each is the name of its package too.
WATCHERS = ("tensorboard", "wandb", "trackio", "mlflow", "swanlab")


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
    for name in settings.report_to:
        if name not in WATCHERS:
            unknown_name("name in rl.report_to", name, list(WATCHERS))
        if find_spec(name) is None:
            raise InputError(f"rl.report_to {name} needs a package that is not installed: pip install {name}")
