"""How the base model is trained."""

from pydantic import Field

from calibsft.settings import Settings

# The name of the embedded model and questions in recipes.
PLAYGROUND = "playground"


class BaseSettings(Settings):
    """The playground's pre-training; unused for any other model."""

    steps: int = Field(1800, ge=1, description="optimiser updates; more make the model right more often")
    batch_size: int = Field(64, ge=1, description="lessons per step")
    learning_rate: float = Field(5e-3, gt=0, description="peak rate of AdamW")
    head_dim: int = Field(
        16, ge=2, multiple_of=2, description="size of an attention head; vLLM on a CPU asks for 64"
    )
    warmup_steps: int = Field(50, ge=1, description="steps until the rate is reached")
