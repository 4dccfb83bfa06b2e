"""Grader `drop`: exact match as DROP's official evaluation counts it.

Each gold is one alternative, and any may match. An alternative of several spans has one span per line. The answer may
list them as JSON, on lines, or separated by semicolons, commas and "and", in any order. A gold that joins its spans with
"and" in one line is read in both ways: as one span, and split like an answer.

Does not compute DROP's F1. Is stricter than the official code, which reads "nan" and digits of other scripts as numbers,
treats all numbers beyond the range of floats as equal, and lets an empty answer match "The".
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from calibsft.verify.sets import json_list
from calibsft.verify.text import ARTICLE, PUNCTUATION, plain_grader, raw

_TOKEN_END = re.compile("[ -]")
_NUMBER = re.compile(r"\+?(?:\d+(?:\.\d*)?|\.\d+)(?:e\+?\d{1,4})?", re.ASCII)
_SEPARATOR = re.compile(r"[\n;]|,\s|(?<!\S)and(?!\S)", re.IGNORECASE)


def alternative(answer: Mapping[str, Any]) -> str | None:
    """One gold from an answer record of the official files: its number, else its spans, one per line, else its date.

    Empty parts of a record do not count. None if all of them are empty.
    """
    if number := str(answer.get("number", "")).strip():
        return number
    spans = [" ".join(str(span).split()) for span in answer.get("spans") or ()]
    if any(spans):
        return "\n".join(filter(None, spans))
    date = answer.get("date") or {}
    return " ".join(str(date[part]) for part in ("day", "month", "year") if date.get(part)) or None


def normalise(text: str) -> str:
    """Lower-case tokens, split at spaces and hyphens, without punctuation and articles; numbers as float text."""
    tokens = (ARTICLE.sub(" ", _token(token)) for token in _TOKEN_END.split(text.lower()))
    return " ".join(" ".join(tokens).split())


def exact_match(predicted: Sequence[str], gold: Sequence[str]) -> bool:
    """Whether the normalised spans are the same set, and equally many."""
    return len(predicted) == len(gold) and set(map(_key, predicted)) == set(map(_key, gold))


def matches_any(golds: tuple[str, ...], answer: str) -> bool:
    """Whether the answer, as one span or as several, is any of the alternatives."""
    items = json_list(answer)
    spans = _lines(answer) if items is None else items
    pieces = _pieces(spans)
    for gold in golds:
        gold_spans = _lines(gold)
        if exact_match([answer], gold_spans) or exact_match(spans, gold_spans):
            return True
        if len(pieces) > 1 and pieces == _pieces(gold_spans):
            return True
    return False


def _token(token: str) -> str:
    bare = token.translate(PUNCTUATION)
    numbers = (str(float(Decimal(text))) for text in (token, bare) if _NUMBER.fullmatch(text))
    return next((number for number in numbers if number != "inf"), bare)


def _key(span: str) -> str:
    return normalise(span) or raw(span)


def _lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.strip()]


def _pieces(spans: Iterable[str]) -> list[str]:
    return sorted(filter(None, (_key(piece) for span in spans for piece in _SEPARATOR.split(span))))


DROP = plain_grader("drop", matches_any)
