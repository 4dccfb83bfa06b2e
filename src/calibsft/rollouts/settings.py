"""How responses are sampled."""

from pathlib import Path
from typing import Annotated, ClassVar

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
        description="do only one part of the work, e.g. 2/8 on the second of eight machines; `calibsft merge` joins the parts"
    ),
]


TOP_P = "sample from the likeliest tokens that together have this probability; 1 is all tokens"


class SampledSettings(Settings):
    """Settings of every stage that samples responses."""

    temperature: float = Field(1.0, ge=0, description="sampling temperature; 0 is greedy")
    top_p: float = Field(1.0, gt=0, le=1, description=TOP_P)
    max_new_tokens: int = Field(8192, ge=1, description="longest response, in tokens")
    stop: Stop = ()
    shard_questions: int = Field(
        100,
        ge=1,
        description="questions per Parquet file; a killed command resumes after the last complete file",
    )


class RolloutSettings(SampledSettings):
    """How responses for training are sampled; the defaults are the paper's."""

    title: ClassVar[str] = "Sampling"

    samples: Annotated[int, Flag("--samples", "-n"), Field(ge=1, description="responses per question")] = 50
    top_p: float = Field(0.95, gt=0, le=1, description=TOP_P)
    force_answer: bool = Field(
        False,
        description="make the model answer where a response was truncated, and count that answer in the success rate",
    )
    shots: Annotated[
        Path | None,
        Mark.CONTENT,
        Field(
            description="worked examples to put before each question: CSV, JSONL or Parquet with question and response"
        ),
    ] = None
