"""How responses are sampled."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from calibsft.settings import Flag, Mark, Settings, Stop


def _part(text: str) -> str:
    number, of = map(int, text.split("/"))
    if number > of:
        raise PydanticCustomError("part", "there is no such part: they are numbered from 1")
    return text


Shard = Annotated[
    Annotated[str, Field(pattern=r"^[1-9][0-9]*/[1-9][0-9]*$"), AfterValidator(_part)] | None,
    Field(
        description="only this part of the work, e.g. 2/8 for the second of eight machines; see calibsft merge"
    ),
]


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
    shots: Annotated[
        Path | None,
        Mark.CONTENT,
        Field(
            description="CSV, JSONL or Parquet with question and response: worked examples before each question"
        ),
    ] = None
