"""Grader `judge` where no judge model is configured: equal to an alias after TriviaQA's own normalisation.

Also settles, without asking, what a judge model need not be asked. Does not look for an alias inside a longer
answer, and does not delete punctuation as other question-answering graders do: here it becomes a space.
"""

import re
import string
import unicodedata

from calibsft.schema import Grade
from calibsft.verify.grader import GradeItem, Grader

MAX_LENGTH = 20_000

_INVISIBLE = ("Cc", "Cf", "Cs")
_VARIATION_SELECTORS = (range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))
_PUNCTUATION = str.maketrans(dict.fromkeys(string.punctuation + "‘’´", " "))
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")


class _Visible(dict[int, str]):
    """What each character becomes, looked up once: white space a space, the invisible nothing."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        hidden = unicodedata.category(character) in _INVISIBLE or any(code in r for r in _VARIATION_SELECTORS)
        self[code] = " " if character.isspace() else "" if hidden else character
        return self[code]


_VISIBLE = _Visible()


def visible(text: str) -> str:
    """`text` on one line, without control, bidirectional, zero-width and other invisible characters."""
    return " ".join(text.translate(_VISIBLE).split())


def normalise(text: str) -> str:
    """Lower case, punctuation and underscores as spaces, without a, an and the, one space between words."""
    return " ".join(_ARTICLE.sub(" ", visible(text).lower().translate(_PUNCTUATION)).split())


def grade(item: GradeItem) -> Grade:
    """Whether the answer is one of the aliases.

    Returns
    -------
    Grade
        `UNPARSED_GOLD` if no alias shows anything or all are over 20,000 characters, `TOO_LARGE` for such an answer,
        `UNPARSED_ANSWER` for one that shows nothing. An alias of which normalisation leaves nothing ("!!!", "The
        The") is compared as it is written, in any case.
    """
    golds = [gold for gold in item.golds if len(gold) <= MAX_LENGTH and visible(gold)]
    if not golds:
        return Grade.UNPARSED_GOLD
    if len(item.answer) > MAX_LENGTH:
        return Grade.TOO_LARGE
    if not (answer := visible(item.answer)):
        return Grade.UNPARSED_ANSWER
    said = _comparable(answer)
    return Grade.CORRECT if any(_comparable(gold) == said for gold in golds) else Grade.INCORRECT


def _comparable(text: str) -> tuple[str, str]:
    """The normal form, and where nothing is left of it the visible text in lower case."""
    normal = normalise(text)
    return normal, "" if normal else visible(text).lower()


JUDGE = Grader("judge", version=1, grade=grade)
