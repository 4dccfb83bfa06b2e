"""Grader `contains`: the answer mentions any alias, as PopQA counts.

The benchmark's own rule: an alias may stand anywhere, as it is, in lower case, or capitalised, even inside another word.
By that rule a long list of names would answer any question. So the text beside the alias is limited here, and so is the
number of things that an answer names. Punctuation and spacing count.
"""

import re

from calibsft.verify.text import plain_grader

MAX_BESIDE = 80
MAX_LINKS = 2

_LINK = re.compile(r"[,;/|\n•]|(?<!\w)(?:and|or)(?!\w)", re.IGNORECASE)


def mentions_any(golds: tuple[str, ...], answer: str) -> bool:
    """Whether the answer contains an alias, in one of its three spellings, and little else."""
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
