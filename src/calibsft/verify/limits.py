"""Refuse expressions that would blow up, by looking at their text only.

The first of two lines of defence: it costs microseconds and catches what is plainly too big - long
text, deep nesting, endless digits, power towers, giant factorials. It does not try to be complete: what
it lets through (sums, expansions of polynomials) is stopped by the time and memory limits of `pool`.
"""

import re

MAX_LENGTH = 2_000
MAX_NESTING = 20
MAX_DIGIT_RUN = 1_000
MAX_POWER_DIGITS = 5_000
MAX_FACTORIAL = 5_000

_DIGIT_RUN = re.compile(rf"\d{{{MAX_DIGIT_RUN + 1}}}")
_FACTORIAL = re.compile(r"(\d+)[\s)}]*!")
_POWER = re.compile(r"(\d*)[\s)}]*\^\s*(?:\{\s*(\d+)\s*\}|(\d+))")
_CAP = 10**6


def too_large(text: str) -> bool:
    """Whether `text` is too long, too deep, or writes a number too big to be worth evaluating."""
    return (
        len(text) > MAX_LENGTH
        or _nesting(text) > MAX_NESTING
        or _DIGIT_RUN.search(text) is not None
        or any(int(n) > MAX_FACTORIAL for n in _FACTORIAL.findall(text))
        or _has_huge_power(text.replace("**", "^"))
    )


def _nesting(text: str) -> int:
    depth = deepest = 0
    for character in text:
        if character in "({[":
            depth += 1
            deepest = max(deepest, depth)
        elif character in ")}]":
            depth -= 1
    return deepest


def _has_huge_power(text: str) -> bool:
    """Evaluate written powers from the innermost out, so that towers are seen for what they are."""
    while power := _POWER.search(text):
        base, exponent = power[1], int(power[2] or power[3])
        if exponent * max(1, len(base)) > MAX_POWER_DIGITS:
            return True
        # A value above the cap is too large as an exponent anyway; its digits are not worth carrying.
        value = str(min(int(base) ** exponent, _CAP)) if base else ""
        text = text[: power.start()] + value + text[power.end() :]
    return False
