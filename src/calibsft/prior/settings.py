"""What is measured of a prior."""

from typing import ClassVar

from pydantic import Field

from calibsft.settings import Settings


class PriorSettings(Settings):
    """What is measured of the models that RL starts from."""

    title: ClassVar[str] = "Prior"

    contexts: int | None = Field(None, ge=1, description="responses on which the gradient is measured")
