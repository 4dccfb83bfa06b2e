"""What a rubric is: the prompt about one item, and how the reply is read.

Does not know any rubric by name: they are listed in `calibsft.judge.RUBRICS`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class JudgeItem:
    """One text to judge.

    Attributes
    ----------
    question
        What was asked.
    text
        What is judged: an answer, or a whole response.
    references
        Ways to write the right answer, for rubrics that show them.
    """

    question: str
    text: str
    references: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Prompt:
    """One question to a judge, as the two turns of a chat."""

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
        From an item to what is asked. All text of the item is hostile: show it with `untrusted`.
    read
        From a reply, on one line, to its verdict; None for a reply that is none.
    tokens
        How many tokens the judge may write.
    judges, replies
        What is judged, in the plural, and what a reply must be: words for the warning about unreadable replies.
    """

    name: str
    version: int
    prompt: Callable[[JudgeItem], Prompt]
    read: Callable[[str], V | None]
    tokens: int
    judges: str
    replies: str
