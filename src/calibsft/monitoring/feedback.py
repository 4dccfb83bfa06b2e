"""Labels that arrive later, as clients send them, and why one may not count.

Strict: unknown keys and values of other types are refused, never guessed. Knows no server; whoever
receives labels maps each reason to a status of its own.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from calibsft.errors import InputError
from calibsft.files.cells import shown
from calibsft.settings import Settings, validated

ID_CHARACTERS = 200

Truth = Annotated[bool, Field(strict=True)]


class Feedback(Settings):
    """The label of one response.

    Attributes
    ----------
    id : of the response.
    correct : whether what was answered was right.
    strong_correct : whether the strong model is right on the question, where that is known.
    """

    id: str = Field(strict=True, min_length=1, max_length=ID_CHARACTERS)
    correct: Truth
    strong_correct: Truth | None = None


class Reason(StrEnum):
    """Why a label does not count."""

    UNKNOWN_ID = "unknown_id"
    ALREADY_LABELLED = "already_labelled"
    NOT_ANSWERED = "not_answered"
    NEEDS_STRONG_CORRECT = "needs_strong_correct"


class Refused(InputError):
    """A well-formed label that does not count, with its reason."""

    def __init__(self, reason: Reason, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


def read_feedback(data: object) -> Feedback:
    """The label in a JSON value; an error names the key, the value and the remedy."""
    if not isinstance(data, dict):
        raise InputError(f"feedback: {shown(data)} is no object; send an object with id and correct")
    return validated(Feedback, data, "feedback")
