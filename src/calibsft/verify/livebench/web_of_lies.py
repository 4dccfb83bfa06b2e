r"""LiveBench web_of_lies_v2: three words, each yes, no or unknown.

The last solution tag counts; without one the last three such words in bold, else the last `\boxed{}`, else the
last plain triple. Does not accept a right triple among further such words.
"""

import re
import string

from calibsft.verify.livebench.extract import boxed, solutions

_WORDS = ("yes", "no", "unknown")
_BOLD = re.compile(r"\*\*(.*?)\*\*")
_WORD = re.compile(r"\b(?:yes|no|unknown)\b")
# A lookahead, so that of "yes, no, yes, no" the last three are found.
_TRIPLE = re.compile(r"(?=\b((?:yes|no|unknown)(?:, (?:yes|no|unknown)){2})\b)")


def is_triple(gold: str) -> bool:
    """Whether a gold belongs to this task."""
    words = [word.strip() for word in gold.lower().split(",")]
    return len(words) == 3 and all(word in _WORDS for word in words)


def matches(gold: str, answer: str) -> bool:
    """Whether the final triple of the answer is the gold."""
    gold, found = _plain(gold), _plain(_find(answer))
    return found == gold or (len(_WORD.findall(found)) == 3 and gold in found)


def _find(answer: str) -> str:
    if tagged := solutions(answer):
        return tagged[-1]
    if words := _bold_words(answer):
        return ", ".join(words[-3:])
    if box := boxed(answer):
        return box
    triples: list[str] = _TRIPLE.findall(_plain(answer))
    return triples[-1] if triples else answer


def _bold_words(answer: str) -> list[str]:
    words = (
        word.strip(string.punctuation) for part in _BOLD.findall(answer.lower()) for word in part.split()
    )
    return [word for word in words if word in _WORDS]


def _plain(text: str) -> str:
    return " ".join(text.lower().split())
