"""Grader `text`: the same words as any alias, apart from case, ASCII punctuation, articles and spacing.

This is the exact match of MuSiQue and NQ-Open, and one half of the grader `hotpotqa`. Also holds what all graders of
plain text share: how text is cleaned, how long it may be, and how an empty text is graded. Gives no credit for overlap,
and knows no synonyms except the aliases.
"""

import re
import string
from collections.abc import Callable

from calibsft.schema import Grade
from calibsft.text import visible
from calibsft.verify.grader import GradeItem, Grader

MAX_LENGTH = 20_000

PUNCTUATION = str.maketrans("", "", string.punctuation)
ARTICLE = re.compile(r"\b(?:a|an|the)\b")


def stripped(text: str) -> str:
    """The visible part of `text`, without white space at its ends."""
    return visible(text).strip()


def plain_grader(
    name: str,
    matches: Callable[[tuple[str, ...], str], bool],
    *,
    version: int = 1,
    read: Callable[[str], str] = stripped,
    read_gold: Callable[[str], str] | None = None,
    all_golds: bool = False,
    max_length: int = MAX_LENGTH,
) -> Grader:
    """A grader of plain text, made from one comparison of golds and answer; neither is empty.

    Parameters
    ----------
    name, version
        As in `Grader`.
    matches
        Whether the answer is right. It runs without a time limit, so its time must be linear in the answer's length.
    read, read_gold
        The text of an answer and of a gold that is compared, empty if it is unreadable; by default a gold is read like an
        answer. A gold far longer than a reference can be is unreadable.
    all_golds
        Whether one unreadable gold makes the item's golds unreadable.
    max_length
        The most characters of an answer; a longer one is `TOO_LARGE`.
    """

    def grade(item: GradeItem) -> Grade:
        short = (gold for gold in item.golds if len(gold) <= MAX_LENGTH)
        golds = tuple(filter(None, map(read_gold or read, short)))
        if not golds or (all_golds and len(golds) < len(item.golds)):
            return Grade.UNPARSED_GOLD
        if len(item.answer) > max_length:
            return Grade.TOO_LARGE
        if not (answer := read(item.answer)):
            return Grade.UNPARSED_ANSWER
        return Grade.CORRECT if matches(golds, answer) else Grade.INCORRECT

    return Grader(name, version, grade)


def normalise(text: str) -> str:
    """Lower case without ASCII punctuation and the words a, an, the; single spaces."""
    return " ".join(ARTICLE.sub(" ", text.lower().translate(PUNCTUATION)).split())


def raw(text: str) -> str:
    """Lower case and single spaces: compared where normalising leaves nothing."""
    return " ".join(text.lower().split())


def key(text: str) -> str:
    """The form in which two texts are compared: the normal form, or the raw text of "The The" and "!!!"."""
    return normalise(text) or raw(text)


def matches_any(golds: tuple[str, ...], answer: str) -> bool:
    """Whether the answer is one of the aliases."""
    return key(answer) in map(key, golds)


TEXT = plain_grader("text", matches_any)
