"""Services that show a running training, besides the journal that is always written.

Checks only names and packages; the trainers' own `report_to` does the rest.
"""

from importlib.util import find_spec

from calibsft.errors import InputError, unknown_name

# Each name is also the name of its package.
WATCHERS = ("tensorboard", "wandb", "trackio", "mlflow", "swanlab")


def require_watchers(names: tuple[str, ...]) -> tuple[str, ...]:
    """`names`; refuses one that is unknown or not installed."""
    for name in names:
        if name not in WATCHERS:
            unknown_name("name in report_to", name, list(WATCHERS))
        if find_spec(name) is None:
            raise InputError(f"report_to {name} needs a package that is not installed: pip install {name}")
    return names
