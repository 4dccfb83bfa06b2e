"""Grader `contains`: the answer mentions any alias, as PopQA counts.

An alias may stand anywhere, as it is, in lower case, or capitalised - even inside another word, and beside
other names: that is the benchmark's own rule. Ignores neither punctuation nor spacing.
"""

from calibsft.verify.text import plain_grader


def mentions_any(golds: tuple[str, ...], answer: str) -> bool:
    """Whether any alias, in one of its three spellings, is a part of the answer."""
    return any(form in answer for gold in golds for form in (gold, gold.lower(), gold.capitalize()))


CONTAINS = plain_grader("contains", mentions_any)
