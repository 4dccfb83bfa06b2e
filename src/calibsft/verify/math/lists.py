r"""Split a cleaned answer into its values, and match them with the gold's.

Values are separated by commas, semicolons, "and" or "or" outside all brackets; `\pm` means two values. A list is a
multiset: the order does not count, the multiplicity does. Tuples, intervals and matrices are one value each. Does not
decide whether two values are equal.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import product

from calibsft.verify.math.limits import MAX_VALUES
from calibsft.verify.math.text import squeeze
from calibsft.verify.math.words import AND, OR

_BRACKETS = r"\\begin(?![a-z])|\\end(?![a-z])|\\[{}]|[(\[{)\]}]"
_OPENING = frozenset((r"\begin", r"\{", "(", "[", "{"))
_LIST = re.compile(rf"({_BRACKETS})|[,;]|{OR}|{AND}")
_CHAIN = re.compile(rf"({_BRACKETS})|=")
_COMMA = re.compile(rf"({_BRACKETS})|[,;]")
_THOUSANDS = re.compile(r"(?<![\d.])\d{1,3}(?:,\d{3})+(?!\d)", re.ASCII)
_PADDED = re.compile(r"(?<![\d.])0\d", re.ASCII)
_SET_NAME = re.compile(r"^[^=,;{}]*?(?:=|\\in(?![a-z]))\s*(?=\\?\{)")
_SIGNS = re.compile(r"\\pm(?![a-z])|\\mp(?![a-z])")
_FLIPPED = {"+": "-", "-": "+"}
_MOST_FREE_SIGNS = 3


def readings(text: str) -> list[list[str]]:
    """The values of `text`: one list, or two if `100,200` may be a number or a pair."""
    joined = _join_thousands(text)
    split = [joined] if joined == text or _PADDED.search(text) else [joined, text]
    return [values(reading) for reading in split]


def values(text: str) -> list[str]:
    """The values of the list or set `text`."""
    opening, inner = bracketed(_SET_NAME.sub("", text, count=1))
    parts = split(inner if opening in (r"\{", "{") else text, _LIST)
    return [value for part in parts for value in _choose_signs(part)]


def components(text: str) -> list[str]:
    """The texts between the commas of `text`, in order."""
    return split(text, _COMMA)


def chain(text: str) -> list[str]:
    """The sides of an equation or a chain of equations; one side if there is no equals sign."""
    return split(text, _CHAIN)


def bracketed(text: str) -> tuple[str, str]:
    """The opening bracket and the content of a text that is one pair of brackets; else two empty texts."""
    depth = 0
    for bracket in re.finditer(_BRACKETS, text):
        depth += 1 if bracket[0] in _OPENING else -1
        if depth == 0:
            first = re.match(_BRACKETS, text)
            if first and first[0] != r"\begin" and bracket.end() == len(text):
                return first[0], text[first.end() : bracket.start()]
            break
    return "", ""


def split(text: str, separator: re.Pattern[str]) -> list[str]:
    """The parts of `text` between separators outside brackets, without empty ones; brackets are the pattern's first group."""
    parts, begin, depth = [], 0, 0
    for found in separator.finditer(text):
        if found[1]:
            depth += 1 if found[1] in _OPENING else -1
        elif depth == 0:
            parts.append(text[begin : found.start()])
            begin = found.end()
    parts.append(text[begin:])
    return [stripped for part in parts if (stripped := part.strip())]


def matched(golds: Sequence[str], answers: Sequence[str], equal: Callable[[int, int], bool]) -> bool:
    """Whether the two lists can be matched one to one, by Kuhn's augmenting paths; `equal` compares positions."""
    if len(golds) != len(answers) or len(golds) > MAX_VALUES:
        return sorted(map(squeeze, golds)) == sorted(map(squeeze, answers))
    owner: dict[int, int] = {}

    def assign(gold: int, tried: set[int]) -> bool:
        for answer in range(len(answers)):
            if answer not in tried and equal(gold, answer):
                tried.add(answer)
                if answer not in owner or assign(owner[answer], tried):
                    owner[answer] = gold
                    return True
        return False

    return all(assign(gold, set()) for gold in range(len(golds)))


def _join_thousands(text: str) -> str:
    """Drop the commas inside numbers, except in brackets: in (12,102) they separate."""
    inside = {position for m in _THOUSANDS.finditer(text) for position in range(*m.span())}
    depth, kept = 0, []
    for position, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if not (depth == 0 and character == "," and position in inside):
            kept.append(character)
    return "".join(kept)


def _choose_signs(text: str) -> Iterator[str]:
    """The values of a text with `\\pm`. Signs vary independently, but together if there is a `\\mp` or there are many."""
    signs = _SIGNS.findall(text)
    together = r"\mp" in signs or len(signs) > _MOST_FREE_SIGNS
    choices = [("+",) * len(signs), ("-",) * len(signs)] if together else product("+-", repeat=len(signs))
    for chosen in dict.fromkeys(choices):
        written = iter([_FLIPPED[c] if sign == r"\mp" else c for sign, c in zip(signs, chosen, strict=True)])
        yield _SIGNS.sub(lambda _: next(written), text).strip()  # noqa: B023 - used at once
