"""Grader `judge` where no judge model is configured: equal to an alias after TriviaQA's own normalisation.

Also settles, without asking, what a judge model need not be asked. Does not look for an alias inside a longer
answer, and does not delete punctuation as other question-answering graders do: here it becomes a space.
"""

import re
import string

from calibsft.text import visible as without_invisible
from calibsft.verify.text import ARTICLE, MAX_LENGTH, plain_grader

# Of these a text can hold a hidden message, in characters that have a category of visible ones.
_VARIATION_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_PUNCTUATION = str.maketrans(dict.fromkeys(string.punctuation + "‘’´", " "))


def visible(text: str) -> str:
    """`text` on one line, without control, bidirectional, zero-width and other invisible characters."""
    return " ".join(_VARIATION_SELECTORS.sub("", without_invisible(text)).split())


def normalise(text: str) -> str:
    """Lower case, punctuation and underscores as spaces, without a, an and the, one space between words."""
    return " ".join(ARTICLE.sub(" ", visible(text).lower().translate(_PUNCTUATION)).split())


def matches_any(golds: tuple[str, ...], answer: str) -> bool:
    """Whether the answer is one of the aliases; those of which normalisation leaves nothing count as written."""
    return _comparable(answer) in map(_comparable, golds)


def _readable(gold: str) -> str:
    return "" if len(gold) > MAX_LENGTH else visible(gold)


def _comparable(text: str) -> tuple[str, str]:
    """The normal form, and where nothing is left of it the visible text in lower case."""
    normal = normalise(text)
    return normal, "" if normal else visible(text).lower()


JUDGE = plain_grader("judge", matches_any, read=visible, read_gold=_readable)
