"""Where a training can be watched while it runs, beside the journal that is always written.

Only names and packages are checked here; the trainers' own `report_to` does the rest.
"""

from importlib.util import find_spec

from calibsft.errors import InputError, unknown_name

# Each is the name of its package too.
WATCHERS = ("tensorboard", "wandb", "trackio", "mlflow", "swanlab")


def require_watchers(names: tuple[str, ...]) -> tuple[str, ...]:
    """`names`, unless one does not exist or is not installed: that is refused."""
    for name in names:
        if name not in WATCHERS:
            unknown_name("name in report_to", name, list(WATCHERS))
        if find_spec(name) is None:
            raise InputError(f"report_to {name} needs a package that is not installed: pip install {name}")
    return names
