"""What is measured of a prior."""

from pydantic import Field

from calibsft.settings import Settings


class PriorSettings(Settings):
    """What is measured of the models that RL starts from."""

    contexts: int | None = Field(None, ge=1, description="responses on which the gradient is measured")
