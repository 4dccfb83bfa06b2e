"""Grader `judge` if no judge model is configured: equal to an alias after TriviaQA's own normalisation.

Punctuation becomes a space; other question-answering graders delete it. Does not look for an alias inside a longer
answer.
"""

import string

from calibsft.text import visible_line
from calibsft.verify.text import ARTICLE, plain_grader

_PUNCTUATION = str.maketrans(dict.fromkeys(string.punctuation + "‘’´", " "))


def normalise(text: str) -> str:
    """Lower case, punctuation and underscores as spaces, without a, an and the, one space between words."""
    return " ".join(ARTICLE.sub(" ", visible_line(text).lower().translate(_PUNCTUATION)).split())


def matches_any(golds: tuple[str, ...], answer: str) -> bool:
    """Whether the answer is one of the aliases; texts of which normalisation leaves nothing are compared as written."""
    return _comparable(answer) in map(_comparable, golds)


def distinct(golds: tuple[str, ...]) -> tuple[str, ...]:
    """The golds with visible text; of several with one normal form, the first."""
    found: dict[str, str] = {}
    for gold in golds:
        if visible_line(gold):
            found.setdefault(normalise(gold) or gold, gold)
    return tuple(found.values())


def _comparable(text: str) -> tuple[str, str]:
    """The normal form, and if that is empty the visible text in lower case."""
    normal = normalise(text)
    return normal, "" if normal else visible_line(text).lower()


JUDGE = plain_grader("judge", matches_any, read=visible_line)
