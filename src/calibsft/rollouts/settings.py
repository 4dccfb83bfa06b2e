"""How responses for training are sampled."""

from pydantic import Field

from calibsft.settings import Settings, StopString


class RolloutSettings(Settings):
    """How responses for training are sampled; the defaults are the paper's."""

    samples: int = Field(50, ge=1)
    temperature: float = Field(1.0, ge=0)
    top_p: float = Field(0.95, gt=0, le=1)
    max_new_tokens: int = Field(8192, ge=1)
    stop: tuple[StopString, ...] = ()
    shard_questions: int = Field(100, ge=1, description="questions per Parquet shard, the unit of resuming")
    force_answer: bool = Field(
        False, description="ask for the answer of a truncated response and count it in the success rate"
    )
