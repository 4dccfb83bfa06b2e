"""Settings of both trainers."""

from importlib.util import find_spec
from typing import Annotated, ClassVar

from pydantic import AfterValidator, BeforeValidator, Field

from calibsft.errors import InputError, unknown_name
from calibsft.settings import Mark, Settings

# Services that show a running training. Each name is also the name of its package.
WATCHERS = ("tensorboard", "wandb", "trackio", "mlflow", "swanlab")


def require_watchers(names: tuple[str, ...]) -> tuple[str, ...]:
    """`names`; refuses one that is unknown or not installed."""
    for name in names:
        if name not in WATCHERS:
            unknown_name("name in report_to", name, list(WATCHERS))
        if find_spec(name) is None:
            raise InputError(f"report_to {name} needs a package that is not installed: pip install {name}")
    return names


Watchers = Annotated[
    tuple[str, ...],
    Mark.ADJUSTABLE,
    BeforeValidator(lambda names: (names,) if isinstance(names, str) else names),
    AfterValidator(require_watchers),
    Field(
        description=f"where to log, comma-separated: {', '.join(WATCHERS)}; metrics.jsonl is always written"
    ),
]


class LoraSettings(Settings):
    """Train low-rank adapters and merge them into the saved checkpoint."""

    title: ClassVar[str] = "LoRA"

    rank: int = Field(
        16, ge=1, description="rank of LoRA adapters; any LoRA option trains adapters instead of all weights"
    )
    alpha: int = Field(32, ge=1, description="scale of the adapters (PEFT: lora_alpha)")
    target_modules: str | tuple[str, ...] = Field(
        "all-linear", description="layers that get adapters, as in PEFT"
    )
