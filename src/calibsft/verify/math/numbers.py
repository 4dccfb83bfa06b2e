r"""Read plain numbers and tolerances exactly.

The grammar is strict and takes ASCII digits only; no text is converted before it matches. Does not evaluate expressions:
that is `algebra`.
"""

import re
from fractions import Fraction

from calibsft.verify.math.words import numeral

_DIGITS = r"(?:\d+\.?\d*|\.\d+)"
_NUMBER = re.compile(
    rf"([+-]?)(?:({_DIGITS})(?:(?:\\times|\\cdot)10\^(?:\{{([+-]?\d{{1,4}})\}}|(\d)))?"
    r"|(\d*)\\frac\{(\d+)\}\{(\d+)\}|(\d+)/(\d+)|(\d*)\.(\d*)\\(?:overline|bar)\{(\d+)\}|10\^(?:\{([+-]?\d{1,4})\}|(\d)))",
    re.ASCII,
)
_TWO_NUMBERS = re.compile(r"\d\s+\d")
_SPACES = re.compile(r"\s+")
_SPACED_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?: \d{3})+(?:\.\d+)?", re.ASCII)
_TOLERANCE = re.compile(rf"{_DIGITS}(?:[eE][+-]?\d{{1,3}})?", re.ASCII)
_BASE = re.compile(r"(\d[0-9A-Z]*)_(?:\{(\d+)\}|(\d+)|\{?\\text\{(\w+)\}\}?)", re.ASCII)
_LONGEST_TOLERANCE = 200


def number(text: str) -> Fraction | None:
    """The exact value of a decimal, a fraction, a mixed or a scientific number; None for anything else."""
    if _SPACED_THOUSANDS.fullmatch(text):
        text = text.replace(" ", "")
    if _TWO_NUMBERS.search(text):
        return None
    found = _NUMBER.fullmatch(_SPACES.sub("", text) if "\\" in text or "/" in text else text.strip())
    if found is None:
        return numeral(text)
    sign, decimal, power, digit, whole, top, bottom, left, right, before, after, repeating, tens, ten = (
        found.groups()
    )
    if decimal:
        value = Fraction(decimal) * Fraction(10) ** int(power or digit or 0)
    elif repeating:
        value = _repeating(before, after, repeating)
    elif tens or ten:
        value = Fraction(10) ** int(tens or ten)
    elif int(bottom or right) == 0:
        return None
    else:
        value = int(whole or 0) + Fraction(int(top or left), int(bottom or right))
    return -value if sign == "-" else value


def last_place(text: str) -> Fraction | None:
    """The place value of a decimal's last digit; None for a number without a decimal point, which is exact."""
    found = _NUMBER.fullmatch(_SPACES.sub("", text))
    if found is None or "." not in (found[2] or ""):
        return None
    return Fraction(10) ** (int(found[3] or found[4] or 0) - len(found[2].partition(".")[2]))


def _repeating(before: str, after: str, period: str) -> Fraction:
    fixed = Fraction(int(before + after or "0"), 10 ** len(after))
    return fixed + Fraction(int(period), (10 ** len(period) - 1) * 10 ** len(after))


def tolerances(text: str) -> list[Fraction] | None:
    """The absolute errors that `text` allows, one or several separated by commas; None if it is malformed."""
    if len(text) > _LONGEST_TOLERANCE:
        return None
    parts = [part.strip() for part in text.split(",")] if text.strip() else []
    return [Fraction(part) for part in parts] if all(map(_TOLERANCE.fullmatch, parts)) else None


def in_base(text: str) -> tuple[str, str] | None:
    """Digits and base of a number such as `1011_2`, None for anything else."""
    found = _BASE.fullmatch(text.replace(" ", ""))
    return (found[1], found[2] or found[3] or found[4]) if found else None
