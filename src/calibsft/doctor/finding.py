"""One thing that was looked at, and how it is."""

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "absent", "broken"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A thing of one part of the environment.

    Attributes
    ----------
    state : `absent` things are optional; `broken` ones are there and do not work, or are needed and missing.
    detail : what was found.
    remedy : what to do about it, if anything; mostly a command.
    """

    part: str
    name: str
    state: State
    detail: str
    remedy: str = ""
