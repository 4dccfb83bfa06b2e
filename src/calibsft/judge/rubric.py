"""The types of judging: an item, the prompt about it, and a rubric, which makes the prompt and reads the reply.

Does not know the rubrics: `calibsft.judge.RUBRICS` lists them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

V = TypeVar("V")
# Takes the position of a prompt and the reply to it; None for a prompt that the model cannot take.
OnReply = Callable[[int, str | None], None]


@dataclass(frozen=True, slots=True)
class JudgeItem:
    """An answer or a whole response to judge; `references` are right answers in several spellings, for rubrics that show them."""

    question: str
    text: str
    references: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Prompt:
    """One question to a judge, as a system turn and a user turn."""

    system: str
    user: str

    @property
    def messages(self) -> list[dict[str, str]]:
        return [{"role": "system", "content": self.system}, {"role": "user", "content": self.user}]


@dataclass(frozen=True, slots=True)
class Rubric(Generic[V]):
    """One thing to ask about an item.

    Attributes
    ----------
    name, version
        What artifacts and caches record. Raise the version whenever a prompt or the reading of a reply changes.
    prompt
        Makes the prompt of an item. All text of the item is hostile: show it with `untrusted`.
    read
        Reads the verdict of a reply, given as one line; None if the reply is unreadable.
    tokens
        The most tokens of a reply.
    judges, replies
        Words for the warning about unreadable replies: what is judged, in the plural, and what a reply must be.
    """

    name: str
    version: int
    prompt: Callable[[JudgeItem], Prompt]
    read: Callable[[str], V | None]
    tokens: int
    judges: str
    replies: str
