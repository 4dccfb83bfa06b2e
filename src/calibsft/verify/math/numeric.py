r"""Compare expressions of SymPy by their values at some points.

This is faster than simplifying a difference, and it always ends: nothing is expanded or solved. Numbers without decimals
are compared exactly, and large values with more digits than they have before the point. Does not read text.
"""

from typing import Any
from zlib import crc32

from calibsft.verify.math.exact import digits as digits_within
from calibsft.verify.math.exact import exact

_POINTS = 3
_DIGITS = 60
# A decimal may be rounded to six digits, as in 0.333333. Differences below the other two are rounding errors.
_CLOSE, _TINY, _SAME = 2e-6, 1e-40, 1e-40
# Values with more digits before the point are compared with more digits, so that no difference is hidden;
# values with too many are compared by their form alone.
_LARGE, _MOST_DIGITS = 15, 20_000
# Larger leaves become floats, so that their factorial is not computed to the last digit.
_EXACT = 5_000


class _NotFiniteError(Exception):
    """A part of an expression is infinite or undefined."""


def equal_numerically(gold: Any, answer: Any) -> bool | None:
    """Compare expressions by their values at some points; None if that is not conclusive.

    Expressions that differ at a point are not equal; expressions that agree in all digits at several points are.
    """
    values = exact(gold), exact(answer)
    if None not in values:
        return values[0] == values[1]
    complex_numbers = _symbols(gold) | _symbols(answer) == {"i"}
    same = True
    for point in range(_POINTS):
        left, right = value_at(point, gold, complex_numbers), value_at(point, answer, complex_numbers)
        if left is None or right is None:
            return None
        difference, size = abs(left - right), max(abs(left), abs(right))
        if difference > max(_CLOSE * size, _TINY):
            return False
        same = same and bool(difference <= _SAME * size)
    if same and (_has_steps(gold) or _has_steps(answer)):
        return None
    if same and not complex_numbers:
        large = max(*map(_before_point, (left, right)), *map(digits_within, (gold, answer)))
        return large <= _LARGE or _equal_in_all_digits(gold, answer, large)
    return True if same else None if _rounded(gold, answer) else False


def _has_steps(thing: Any) -> bool:
    """Whether an expression with variables has steps, so that values at a few points prove little."""
    from sympy import Mod, Piecewise, ceiling, floor, sign

    return bool(thing.free_symbols) and bool(thing.has(floor, ceiling, Mod, sign, Piecewise))


def _rounded(gold: Any, answer: Any) -> bool:
    """Whether either expression has decimals, which may be rounded."""
    from sympy import Float

    return bool(gold.has(Float) or answer.has(Float))


def _equal_in_all_digits(gold: Any, answer: Any, large: int) -> bool:
    """Compare expressions with large values or parts again, with more digits."""
    if large > _MOST_DIGITS:
        return bool(gold == answer)
    digits = _DIGITS + large
    left, right = value_at(0, gold, digits=digits), value_at(0, answer, digits=digits)
    if left is None or right is None:
        return False
    return bool(abs(left - right) <= _same(digits) * max(abs(left), abs(right)))


def _symbols(thing: Any) -> set[str]:
    return {symbol.name for symbol in getattr(thing, "free_symbols", ())}


def is_finite(thing: Any) -> bool:
    """Whether no part of an expression is infinite or undefined at any of the points."""
    if has_infinity(thing):
        return False
    try:
        for point in range(_POINTS):
            _evaluate(point, thing)
    except _NotFiniteError:
        return False
    except MemoryError:
        raise
    except Exception:  # SymPy cannot evaluate it, so no infinite value is known
        return True
    return True


def value_at(point: int, thing: Any, complex_numbers: bool = False, digits: int = _DIGITS) -> Any:
    """The value of an expression where each variable has a positive value of its own; None if it has none.

    The value must be real, because a complex one may depend on the branch of a root or a logarithm. It may be complex only
    where `i` is the only letter, and so the imaginary unit.
    """
    from sympy import Expr

    if not isinstance(thing, Expr) or thing.is_Matrix or (thing.is_Symbol and not complex_numbers):
        return None
    try:
        value = _evaluate(point, thing, complex_numbers, digits)
    except MemoryError:
        raise
    except Exception:  # SymPy raises many kinds where an expression has no value
        return None
    parts = value.as_real_imag() if complex_numbers else (value,)
    return value if all(part.is_Float or part.is_Rational for part in parts) else None


def _evaluate(point: int, thing: Any, complex_numbers: bool = False, digits: int = _DIGITS) -> Any:
    """Evaluate from the leaves up, each node once; SymPy's own evaluation may visit a branch many times.

    An infinite or undefined part raises `_NotFiniteError`, even if it does not show in the value, as in `1/(1/0)`.
    """
    value = _node(point, thing, complex_numbers, digits)
    if not value.is_Float and has_infinity(value):
        raise _NotFiniteError
    return value


def has_infinity(thing: Any) -> bool:
    """Whether an expression has an infinite or undefined part."""
    from sympy import AccumBounds, S

    return bool(thing.has(S.Infinity, S.NegativeInfinity, S.ComplexInfinity, S.NaN, AccumBounds))


def _node(point: int, thing: Any, complex_numbers: bool, digits: int) -> Any:
    if thing.is_Symbol:
        from sympy import Float, I

        position = 0.25 + crc32(f"{point} {thing.name}".encode()) / 2**32
        return I if complex_numbers else Float(str(position), digits)
    if thing.is_Rational and max(abs(thing.p), thing.q) < _EXACT:
        return thing
    if not thing.args or getattr(thing, "limits", None):
        return thing.evalf(digits)
    parts = [_evaluate(point, part, complex_numbers, digits) for part in thing.args]
    if thing.func.__name__ == "log" and parts[1:] == [0]:
        raise _NotFiniteError  # SymPy divides by the infinite logarithm of the base and gets 0
    return thing.func(*parts).evalf(digits)


def equal_equations(gold: Any, answer: Any) -> bool | None:
    """Whether two equations differ only by a factor; None if that is not conclusive."""
    if gold.free_symbols != answer.free_symbols:
        return False
    sides, digits = _values((gold.lhs - gold.rhs, answer.lhs - answer.rhs))
    if all(None not in pair and pair[1] for pair in sides):
        factors = [g / a for g, a in sides]
        deviation = max(abs(factor / factors[0] - 1) for factor in factors) if factors[0] else 1
        if deviation <= _same(digits):
            return True
        if deviation <= _CLOSE and not _rounded(gold, answer):
            return False
    return None


def constant(thing: Any) -> bool:
    """Whether an expression has the same value at all points; False if it has no value at one."""
    values = [value for (value,) in _values((thing,))[0]]
    return None not in values and len(set(values)) == 1


def _values(things: tuple[Any, ...]) -> tuple[list[list[Any]], int]:
    """The values at each point, and the number of their digits."""
    # Beside a large constant, the effect of the variables shows only in later digits.
    digits = _DIGITS + 2 * max(map(_magnitude, things))
    return [[value_at(point, thing, digits=digits) for thing in things] for point in range(_POINTS)], digits


def _magnitude(thing: Any) -> int:
    """How many digits the value of an expression has before the point, at most `_MOST_DIGITS`."""
    value = value_at(0, thing)
    return 0 if value is None else min(_before_point(value), _MOST_DIGITS)


def _before_point(value: Any) -> int:
    from sympy import Float

    # The binary exponent of a Float gives that without a logarithm.
    _, mantissa, exponent, bits = Float(abs(value), _DIGITS)._mpf_
    return max(0, int((exponent + bits) * 0.302)) if mantissa else 0


def _same(digits: int) -> Any:
    """The largest relative difference that is a rounding error with `digits` digits."""
    from sympy import Float

    return Float(10, digits) ** (20 - digits)
