"""How the base model is trained."""

from pydantic import Field

from calibsft.settings import Settings


class BaseSettings(Settings):
    """The playground's pre-training; unused for any other model."""

    steps: int = Field(1800, ge=1)
    batch_size: int = Field(64, ge=1)
    learning_rate: float = Field(5e-3, gt=0)
    warmup_steps: int = Field(50, ge=1)
