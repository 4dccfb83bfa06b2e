"""How the base model is trained."""

from typing import ClassVar, Literal

from pydantic import Field

from calibsft.settings import Settings

# The name of the embedded model and questions in recipes.
PLAYGROUND = "playground"


class BaseSettings(Settings):
    """The playground's pre-training; unused for any other model."""

    title: ClassVar[str] = "Base model"

    world: Literal["playground", "study", "study-judge"] = Field(
        "playground",
        description="what it learns: playground, a few kinds of arithmetic; study, twelve kinds; study-judge, also to score responses",
    )
    architecture: Literal["qwen3", "llama", "olmo2"] = Field("qwen3", description="architecture of the model")
    steps: int = Field(1800, ge=1, description="optimiser updates; more make the model right more often")
    batch_size: int = Field(64, ge=1, description="lessons per step")
    learning_rate: float = Field(5e-3, gt=0, description="peak learning rate of AdamW")
    hidden_size: int = Field(64, ge=2, multiple_of=2, description="width of the model")
    intermediate_size: int = Field(128, ge=1, description="width of its feed-forward layers")
    layers: int = Field(2, ge=1, description="number of layers")
    heads: int = Field(4, ge=1, description="attention heads")
    kv_heads: int = Field(2, ge=1, description="heads of keys and values; heads is a multiple of it")
    head_dim: int = Field(
        16, ge=2, multiple_of=2, description="size of an attention head; vLLM on a CPU asks for 64"
    )
    tied: bool = Field(
        True,
        description="use one table for input and output embeddings; with two, fine-tuning does not change characters that it"
        " never sees",
    )
    warmup_steps: int = Field(50, ge=1, description="steps until the peak rate is reached")
