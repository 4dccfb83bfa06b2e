r"""Refuse expressions that are too large to evaluate, by their text alone.

This is the first of two defences. It takes microseconds and finds what is clearly too large - long text, deep nesting,
endless digits, power towers, huge factorials and binomials - or clearly not worth evaluating, such as integrals. It need
not be complete: the limits of `pool` stop the rest.
"""

import re
from itertools import accumulate

MAX_LENGTH = 2_000
MAX_NESTING = 20
MAX_DIGIT_RUN = 1_000
MAX_POWER_DIGITS = 5_000
MAX_FACTORIAL = 5_000
MAX_FACTORIALS = 20
MAX_BINOMIAL = 20_000
MAX_TOWER = 3
MAX_VALUES = 64
MAX_ALGEBRA_LENGTH = 500
# Each bracket may begin a product, a tuple or an interval; the grammar tries them all, which takes long.
MAX_ALGEBRA_NESTING = 6

_DIGIT_RUN = re.compile(rf"\d{{{MAX_DIGIT_RUN + 1}}}")
# The last of several powers in a row is evaluated first: 9^9^9 is 9^(9^9).
_POWER = re.compile(r"(\d*)[\s)}]*\^\s*(?:\{\s*(\d+)\s*\}|(\d+)(?!\d))(?!\s*\^)")
_POWER_OR_BRACKET = re.compile(r"\^\s*([{(]*)|[({)}]")
_FACTORIAL = re.compile(r"(\d+)\s*!")
_BRACKETED_NUMBER = re.compile(r"[({]\s*(\d+)\s*[)}](?=[\s)}]*!)")
_REPEATED_FACTORIAL = re.compile(r"![\s)}]*![\s)}]*!")
_BINOMIAL = re.compile(r"binom\s*\{\s*(\d+)\s*\}\s*\{\s*(?:(\d+)\s*\})?")
_UNEVALUATED = re.compile(
    r"\\(?:i+nt|oint|lim|det|limsup|liminf|partial)(?![a-z])|!\s*!|\\frac\s*\{\s*d\s*\}\s*\{\s*d"
    # A sum or product is evaluated if its upper bound has at most two digits.
    r"|\\(?:sum|prod)(?![a-z])(?!\s*_\s*(?:\{[^{}]*\}|\w)\s*\^\s*(?:\{\s*\d{1,2}\s*\}|\d(?!\d)))"
)
_SMALL_FACTORIALS = {0: 1, 1: 1, 2: 2, 3: 6, 4: 24, 5: 120, 6: 720, 7: 5_040, 8: 40_320}
_CAP = 10**6


def too_large(text: str) -> bool:
    """Whether `text` is too long, too deep, or has a number that is too large to evaluate."""
    if len(text) > MAX_LENGTH or _nesting(text) > MAX_NESTING or _DIGIT_RUN.search(text):
        return True
    if "^" not in text and "!" not in text and "**" not in text and r"\binom" not in text:
        return False
    text = text.replace("**", "^")
    powers = _without_powers(text)
    return (
        powers is None
        or _tower(text) > MAX_TOWER
        or _REPEATED_FACTORIAL.search(text) is not None
        or _has_huge_factorial(powers)
        or any(int(n) > MAX_BINOMIAL and int(k or n) > MAX_FACTORIAL for n, k in _BINOMIAL.findall(powers))
    )


def beyond_algebra(text: str) -> bool:
    """Whether `text` is only compared as text: it is very long or deep, or has an integral or a limit."""
    return (
        len(text) > MAX_ALGEBRA_LENGTH
        or _nesting(text, "([", ")]") > MAX_ALGEBRA_NESTING
        or _UNEVALUATED.search(text) is not None
    )


def _nesting(text: str, opening: str = "({[", closing: str = ")}]") -> int:
    return max(accumulate(((c in opening) - (c in closing) for c in text), initial=0))


def _without_powers(text: str) -> str | None:
    """`text` with powers evaluated, the innermost first, so that towers are found; None if one is huge."""
    while power := _POWER.search(text):
        base, exponent = power[1], int(power[2] or power[3])
        if exponent * max(1, len(base)) > MAX_POWER_DIGITS:
            return None
        # A value above the cap is too large as an exponent anyway, so its exact digits do not matter.
        value = str(min(int(base) ** exponent, _CAP)) if base else ""
        text = text[: power.start()] + value + text[power.end() :]
    return text


def _tower(text: str) -> int:
    """How many powers stand in the exponent of one another at most, with any bases."""
    tallest, opened = 0, [0]
    for found in _POWER_OR_BRACKET.finditer(text):
        if found[1] is not None:
            height = opened[-1] + 1
            tallest = max(tallest, height)
            opened.extend([height] * len(found[1]))
        elif found[0] in "({":
            opened.append(opened[-1])
        elif len(opened) > 1:
            opened.pop()
    return tallest


def _has_huge_factorial(text: str) -> bool:
    """Whether a factorial, or a factorial of a factorial, is huge; small ones are replaced by their values to find out."""
    if text.count("!") > MAX_FACTORIALS:
        return True
    while factorial := _FACTORIAL.search(text := _BRACKETED_NUMBER.sub(r"\1", text)):
        number = int(factorial[1])
        if number > MAX_FACTORIAL:
            return True
        value = str(_SMALL_FACTORIALS.get(number, _CAP))
        repeated = text[factorial.end() :].lstrip()[:1] == "!"  # 7!! is a double factorial
        text = text[: factorial.start()] + ("" if repeated else f" {value} ") + text[factorial.end() :]
    return False
