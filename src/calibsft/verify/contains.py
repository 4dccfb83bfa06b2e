"""Grader `contains`: the answer mentions any alias, as PopQA counts.

An alias may stand anywhere, as it is, in lower case, or capitalised, even inside another word: that is the
benchmark's own rule. It would take a long list of names for an answer to any question; here an alias may have only
so much beside it, and is one of a few things named. Ignores neither punctuation nor spacing.
"""

import re

from calibsft.verify.text import plain_grader

MAX_BESIDE = 80
MAX_LINKS = 2

_LINK = re.compile(r"[,;/|\n•]|(?<!\w)(?:and|or)(?!\w)", re.IGNORECASE)


def mentions_any(golds: tuple[str, ...], answer: str) -> bool:
    """Whether any alias, in one of its three spellings, is a part of the answer, which offers little else."""
    return any(
        form in answer and _settles_on(form, answer)
        for gold in golds
        for form in (gold, gold.lower(), gold.capitalize())
    )


def _settles_on(alias: str, answer: str) -> bool:
    """Whether an answer that holds `alias` is at most a sentence or a short list; "Honolulu, Hawaii, USA" is."""
    links = len(_LINK.findall(answer)) - len(_LINK.findall(alias))
    return len(answer) - len(alias) <= MAX_BESIDE and links <= MAX_LINKS


CONTAINS = plain_grader("contains", mentions_any, version=2)
