"""What both trainers can be told."""

from typing import Annotated

from pydantic import BeforeValidator, Field

from calibsft.settings import Settings

Watchers = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda names: (names,) if isinstance(names, str) else names),
    Field(description="where to watch it: tensorboard, wandb, trackio, …; metrics.jsonl is always written"),
]


class LoraSettings(Settings):
    """Train low-rank adapters and merge them into the saved checkpoint."""

    rank: int = Field(16, ge=1)
    alpha: int = Field(32, ge=1)
    target_modules: str | tuple[str, ...] = "all-linear"
