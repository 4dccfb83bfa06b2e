"""Settings of both trainers."""

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from calibsft.settings import Mark, Settings
from calibsft.training.watchers import require_watchers

Watchers = Annotated[
    tuple[str, ...],
    Mark.ADJUSTABLE,
    BeforeValidator(lambda names: (names,) if isinstance(names, str) else names),
    AfterValidator(require_watchers),
    Field(description="where to watch it: tensorboard, wandb, trackio, …; metrics.jsonl is always written"),
]


class LoraSettings(Settings):
    """Train low-rank adapters and merge them into the saved checkpoint."""

    rank: int = Field(16, ge=1, description="rank of the adapters")
    alpha: int = Field(32, ge=1, description="scale of the adapters")
    target_modules: str | tuple[str, ...] = Field("all-linear", description="layers that get adapters")
