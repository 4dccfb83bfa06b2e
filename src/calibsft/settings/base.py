"""What a section of settings is made of: the class, common types, and marks on its fields."""

import re
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field


class Mark(Enum):
    """What is special about a field, in its annotation."""

    ADJUSTABLE = "may change while a stage is under way: it does not shape the result"
    CONTENT = "a path whose content shapes the result, whatever it is called"
    POSITIONAL = "an argument of the command, without a flag"
    REPEATED = "an option that is given once for each value"


class Flag:
    """The option for a field of a command's main section, in its annotation; several flags are alternative options.

    Parameters
    ----------
    names : spellings of one option.
    help : its help text, if that is not the field's description.
    always : whether the name is also used if the section is not the main one.
    metavar : what help shows as its value, if that does not follow from the field.
    """

    def __init__(self, *names: str, help: str = "", always: bool = False, metavar: str = "") -> None:
        self.names, self.help, self.always, self.metavar = names, help, always, metavar


@dataclass(frozen=True, slots=True)
class Metavar:
    """What help shows as the value of a field's option, in its annotation."""

    word: str


# The largest seed that numpy takes.
Seed = Annotated[
    int,
    Metavar("INT"),
    Field(ge=0, le=2**32 - 1, description="seed of everything random in this stage"),
]
Device = Annotated[
    str,
    Mark.ADJUSTABLE,
    Metavar("DEVICE"),
    Field(description="where models compute: auto, cpu, cuda, cuda:1, …; auto takes a GPU if there is one"),
]
Dtype = Annotated[
    Literal["auto", "float32", "bfloat16", "float16"],
    Metavar("DTYPE"),
    Field(description="number type of the weights: auto, float32, bfloat16 or float16"),
]


class Settings(BaseModel):
    """One section of a recipe; help shows its options under `title`."""

    title: ClassVar[str] = ""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def require_plain_address(url: str, key: str, variable: str) -> None:
    # The recipe is copied into every run folder, so it must not hold a key.
    if not re.fullmatch(r"https?://[^\s/@?#]+(?:/[^\s@?#]*)?", url):
        raise ValueError(
            f"{key} must be a plain address such as http://localhost:8000/v1, and a key must be in the"
            f" environment as {variable}"
        )


DataDir = Annotated[
    str | None,
    Mark.CONTENT,
    Flag("--data-dir", always=True, metavar="FOLDER"),
    Field(description="folder with the benchmarks' files, read instead of the Hub"),
]
Stop = Annotated[
    tuple[Annotated[str, Field(min_length=1)], ...],
    Mark.REPEATED,
    Field(description="text that ends a response; repeatable"),
]
