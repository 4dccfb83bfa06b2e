r"""The exact value of an expression of whole numbers, however large.

Rounded to any number of digits, `2008!` and `2008! - 1` are the same; exactly they are not. Only sums, products, whole
powers, factorials and binomials are evaluated, and only up to a bound on the size of the result.
"""

import math
from fractions import Fraction
from typing import Any

_MOST_BITS = 300_000
_MOST_FACTORIAL = 5_000
_DIGITS_PER_BIT = 0.302


class _Inexact(Exception):
    """There is no exact value, or it is too large."""


def exact(thing: Any) -> Fraction | None:
    """The value of a SymPy expression of rational numbers; None if it has variables, roots, decimals or is huge."""
    try:
        return _value(thing)
    except _Inexact:
        return None


def digits(thing: Any) -> int:
    """How many digits the largest exact part of an expression has."""
    value = exact(thing)
    if value is not None:
        return int(_bits(value) * _DIGITS_PER_BIT)
    return max(map(digits, getattr(thing, "args", ())), default=0)


def _value(thing: Any) -> Fraction:
    if getattr(thing, "is_Rational", False):
        return _bounded(Fraction(int(thing.p), int(thing.q)))
    operation = getattr(getattr(thing, "func", None), "__name__", "")
    if operation not in ("Add", "Mul", "Pow", "factorial", "binomial") or not thing.args:
        raise _Inexact
    parts = [_value(part) for part in thing.args]
    if operation in ("Add", "Mul"):
        total = parts[0]
        for part in parts[1:]:
            total = _bounded(total + part if operation == "Add" else total * part)
        return total
    return _bounded(_power(*parts) if operation == "Pow" else _counted(operation, parts))


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1 or (base == 0 and exponent < 0) or _bits(base) * abs(exponent) > _MOST_BITS:
        raise _Inexact
    return base ** int(exponent)


def _counted(operation: str, parts: list[Fraction]) -> Fraction:
    whole = [int(part) for part in parts]
    if (
        parts != whole
        or min(whole) < 0
        or whole[-1] > _MOST_FACTORIAL
        or _bits(parts[0]) * whole[-1] > _MOST_BITS
    ):
        raise _Inexact
    return Fraction(math.factorial(*whole) if operation == "factorial" else math.comb(*whole))


def _bounded(value: Fraction) -> Fraction:
    if _bits(value) > _MOST_BITS:
        raise _Inexact
    return value


def _bits(value: Fraction) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())
