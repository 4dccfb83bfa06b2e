"""Grader `set`: the answer names all members of one set and nothing else, as WebQuestions counts.

The golds of an item are the members, not aliases. Members are compared as `text` does; order and repetition do not
matter. An answer is a JSON list, or members separated by new lines, semicolons, commas and "and". A member that contains
a comma or an "and" is found as a whole. Gives no credit for a part of the set.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from calibsft.verify.text import key, plain_grader, stripped

# A captured group: splitting yields pieces and separators in turn.
_SEPARATOR = re.compile(r"([\n;,]|(?<![^\s,;])and(?!\S))", re.IGNORECASE)

# The text between two separators in its normal form, and whether "and" stands before it.
Piece = tuple[bool, str]


def json_list(text: str) -> list[str] | None:
    """The items of a JSON list of strings and numbers, as written; None for anything else."""
    if not text.startswith("["):
        return None
    try:
        # Numbers stay text: no digits are lost, and a long number costs no time.
        items = json.loads(text, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return None
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        return None
    return [stripped(item) for item in items]


def matches_set(golds: tuple[str, ...], answer: str) -> bool:
    """Whether the answer, as one member or as several, is the set of golds."""
    members = _keys(golds)
    if members == {key(answer)}:
        return True
    if (items := json_list(answer)) is not None:
        return _keys(items) == members
    return members in map(_keys, _readings(answer)) or _lists_exactly(golds, _pieces(answer))


def _keys(members: Iterable[str]) -> set[str]:
    return set(map(key, members)) - {""}


def _readings(answer: str) -> Iterator[list[str]]:
    """The answer split by more and more separators, each time without and with a final "and"."""
    for separators in ("\n", "[\n;]", "[\n;,]"):
        *parts, last = re.split(separators, answer)
        yield [*parts, last]
        yield [*parts, *last.rsplit(" and ", 1)]


def _pieces(text: str) -> tuple[Piece, ...]:
    pieces: list[Piece] = []
    joined = False
    for position, part in enumerate(_SEPARATOR.split(text)):
        if position % 2:
            joined |= part.lower() == "and"
        elif name := key(part):
            pieces.append((joined, name))
            joined = False
    return tuple(pieces)


def _lists_exactly(golds: tuple[str, ...], pieces: tuple[Piece, ...]) -> bool:
    """Whether `pieces`, from left to right, make up all members; a member has one or more pieces.

    The longest member that fits is taken, so "Washington, D.C." is not split into "Washington" and a rest.
    """
    members = {_pieces(gold) for gold in golds}
    if () in members:  # the word "and" has no pieces
        return False
    by_start: dict[str, list[tuple[Piece, ...]]] = {}
    for member in sorted(members, key=len, reverse=True):
        by_start.setdefault(member[0][1], []).append(member)
    found, start = set(), 0
    while start < len(pieces):
        candidates = by_start.get(pieces[start][1], ())
        fits = (m for m in candidates if pieces[start + 1 : start + len(m)] == m[1:])
        if (member := next(fits, ())) == ():
            return False
        found.add(member)
        start += len(member)
    return found == members


def gold_answers(golds: tuple[str, ...]) -> list[str]:
    """All members as one list."""
    return [json.dumps(golds, ensure_ascii=False)]


SET = replace(plain_grader("set", matches_set, all_golds=True), gold_answers=gold_answers)
