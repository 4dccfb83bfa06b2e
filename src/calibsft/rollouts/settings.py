"""How responses are sampled."""

from typing import Annotated

from pydantic import Field

from calibsft.settings import Flag, Settings, Stop


class SampledSettings(Settings):
    """Settings of every stage that samples responses."""

    temperature: float = Field(1.0, ge=0, description="0 takes the most likely token")
    top_p: float = Field(1.0, gt=0, le=1, description="share of the likeliest tokens that may be drawn")
    max_new_tokens: int = Field(8192, ge=1, description="length limit of a response")
    stop: Stop = ()
    shard_questions: int = Field(100, ge=1, description="questions per Parquet shard, the unit of resuming")


class RolloutSettings(SampledSettings):
    """How responses for training are sampled; the defaults are the paper's."""

    samples: Annotated[int, Flag("--samples", "-n"), Field(ge=1, description="responses per question")] = 50
    top_p: float = Field(0.95, gt=0, le=1, description="share of the likeliest tokens that may be drawn")
    force_answer: bool = Field(
        False, description="ask for the answer of a truncated response and count it in the success rate"
    )
