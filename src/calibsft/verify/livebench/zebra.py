r"""LiveBench zebra_puzzle: one word in the questions released before 2024-11-25, a list in later ones.

A word is the last `***word***`, else the last word. A list is in solution tags, else in `\boxed{}`, else on the last
line. Each item must be the gold's item, without words beside it that could be another answer. The benchmark's own rule
allows any words beside an item, so an item that names all values would be right everywhere. Gives no credit for a part
of the list.
"""

import re
import string

from calibsft.verify.livebench.extract import boxed, solutions
from calibsft.verify.math.words import NUMBER_WORDS

_BOLD = re.compile(r"\*\*\*([^*\n]+)\*\*\*")
_WORD = re.compile(r"\w+")
# Words that may stand beside an item: function words, and the names of the puzzles' attributes.
_BESIDE = frozenset((
    *("a", "an", "and", "the", "at", "in", "is", "it", "of", "on", "to", "who", "he", "she", "they", "person", "man", "woman"),
    *("house", "number", "no", "place", "spot", "seat", "answer", "likes", "plays", "watches", "drinks", "eats", "drives", "does"),
    *("has", "music", "movie", "movies", "genre", "food", "sport", "hobby", "job", "pet", "drink", "fruit", "vegetable"),
    *("transport", "vehicle", "nationality"),
))  # fmt: skip
_DIGITS = {str(digit): NUMBER_WORDS[digit] for digit in range(1, 10)}


def matches_word(gold: str, answer: str) -> bool:
    """Whether the final word of the answer is the gold; "7" may stand for "seven", and "spy" for "spy movies"."""
    gold = gold.lower()
    found = (_BOLD.findall(answer) or solutions(answer) or [boxed(answer) or answer])[-1].lower()
    return any(gold in (word, _DIGITS.get(word), f"{word} movies") for word in _readings(found))


def matches_list(gold: str, answer: str) -> bool:
    """Whether every item of the answer is the gold's item at the same position, apart from words beside it."""
    expected = gold_items(gold)
    found = _find_items(answer, len(expected))
    return len(found) >= len(expected) and all(map(_is_item, expected, found))


def gold_items(gold: str) -> list[str]:
    """The gold's items in the form in which they are compared."""
    return [_plain(item) for item in gold.split(",")]


def _is_item(gold: str, item: str) -> bool:
    before, found, after = item.partition(gold)
    apart = not (before[-1:].isalnum() or after[:1].isalnum())
    return bool(found) and apart and _BESIDE.issuperset(_WORD.findall(f"{before} {after}"))


def _readings(text: str) -> list[str]:
    """The whole text, its last word with inner signs such as "d&b" and "security-guard", and the last word without."""
    text = text.strip()
    words = _WORD.findall(text)
    return [text, text.split()[-1].strip(string.punctuation), words[-1]] if words else [text]


def _find_items(answer: str, count: int) -> list[str]:
    if tagged := solutions(answer):
        items = [_plain(item) for text in tagged for item in text.split(",")]
        return items[-count:] if len(tagged) > 1 else items
    if box := boxed(answer):
        return [_plain(item) for item in box.replace("\\", "").split(",")]
    items = [_plain(item) for item in answer.rpartition("\n")[2].split(",")]
    return items if len(items) == count else []


def _plain(item: str) -> str:
    return item.lower().replace("-", " ").replace("position", "").strip()
