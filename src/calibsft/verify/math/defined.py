r"""Find expressions that have no value: `0/0`, `2^\infty`, the empty set, `3<2`, `x<x`.

Computer algebra calculates with them and may get any result: the difference between such an expression and any number
can become zero. So an expression without a value equals only one of the same form. An infinite end of an interval, or
bound of an inequality, is allowed, since nothing is calculated with it. Does not compare.
"""

from typing import Any

from calibsft.verify.math.numeric import constant, has_infinity, is_finite


def defined(thing: Any) -> bool:
    """Whether an expression is a value: finite and determinate in every part."""
    from sympy import And, Basic, Expr, Interval, MatrixBase, Set, Tuple
    from sympy.core.relational import Relational

    if isinstance(thing, MatrixBase):
        return all(map(defined, thing.flat()))
    if isinstance(thing, Interval):
        return all(endless(end) or defined(end) for end in (thing.start, thing.end))
    if isinstance(thing, Relational):
        return _depends_on_variables(thing)
    if isinstance(thing, Set):
        return thing.is_empty is not True and all(map(defined, thing.args))
    if isinstance(thing, (And, Tuple)):
        return all(map(defined, thing.args))
    if isinstance(thing, Expr):
        return is_finite(thing)
    return isinstance(thing, Basic) and bool(thing.args) and not has_infinity(thing)


def endless(thing: Any) -> bool:
    """Whether an expression is infinity itself, of either sign."""
    from sympy import S

    return thing in (S.Infinity, S.NegativeInfinity)


def formless(thing: Any) -> bool:
    """Whether many texts are read as this same expression, for example `0/0` and `0^{-1}`."""
    from sympy import S
    from sympy.logic.boolalg import BooleanAtom

    return isinstance(thing, BooleanAtom) or thing in (S.NaN, S.ComplexInfinity, S.EmptySet)


def _depends_on_variables(relation: Any) -> bool:
    """Whether an equation or inequality depends on its variables, unlike `3<2`, `x=x` and `0x<1`."""
    left, right = relation.lhs, relation.rhs
    if not relation.free_symbols or not all(endless(side) or defined(side) for side in (left, right)):
        return False
    if endless(left) or endless(right):
        return True
    try:
        return not constant(left - right)
    except TypeError:  # a side is a set
        return True
