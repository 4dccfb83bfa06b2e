r"""Compare two values by computer algebra: math-verify reads them, and they are compared as numbers or by its rules.

Text is read only by the LaTeX grammar of math-verify's parser, never by `parse_expr` or `sympify`, which would execute
it. Everything here may take for ever or use all memory, so it runs only in a worker process.
"""

import logging
import re
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Any

from calibsft.verify.math.defined import defined, formless
from calibsft.verify.math.numeric import equal_equations, equal_numerically, has_infinity, value_at

_SOLVABLE = 12
_DIGITS_ONLY = re.compile(r"\d+(\.\d*)?|\.\d+", re.ASCII)
_ENERGY = re.compile(r"(?<![A-Za-z\\])E(?=\s*_)")
# Grammar, simplification and solver are slow at the first use of a construct.
_WARM_UP = (
    (r"-\frac{\sqrt{3}}{2}x^{2}", r"10 \times 10^{-3}+\log_2 8"),
    (r"5!\cdot\binom{n}{2}", r"\sin(\pi)"),
    (r"\begin{pmatrix}1&-2\\3&4\end{pmatrix}", r"\begin{pmatrix}1&x\\3&4\end{pmatrix}"),
    (r"a_{n}=2n+1", r"2x+3y=5"),
    ("xy=1", r"y=\frac{1}{x}"),
    (r"x\ge 0", r"(1,2]\cup[3,\infty)"),
    (r"\frac{x}{3}", "0.333333x"),
)


class Undecided(Exception):
    """The verdict needs computer algebra."""


class Algebra:
    """Stands in for computer algebra where there is none: every question raises `Undecided`.

    Attributes
    ----------
    unread
        Whether an answer could not be read, while its gold could.
    """

    unread = False

    def equal(self, gold: str, answer: str) -> bool:
        raise Undecided

    def same_set(self, golds: Sequence[str], answers: Sequence[str]) -> bool:
        raise Undecided

    def value(self, text: str) -> Fraction | None:
        raise Undecided


class SymPy(Algebra):
    """math-verify's reader and its rules of equality, in a state that does not depend on earlier comparisons."""

    def __init__(self) -> None:
        from sympy.core.cache import clear_cache
        from sympy.core.random import seed

        self._read_before: dict[str, Any] = {}
        # SymPy infers facts in a random order and keeps them, so a result could depend on earlier expressions.
        clear_cache()
        seed(0)

    def equal(self, gold: str, answer: str) -> bool:
        """Whether both are the same; a gold that cannot be read equals nothing."""
        gold_object, answer_object = self._read(gold), self._read(answer)
        self.unread |= gold_object is not None and answer_object is None
        return None not in (gold_object, answer_object) and _equal(gold_object, answer_object)

    def same_set(self, golds: Sequence[str], answers: Sequence[str]) -> bool:
        """Whether the intervals and inequalities of both sides have the same union."""
        gold_sets, answer_sets = ([_as_set(self._read(text)) for text in side] for side in (golds, answers))
        if None in gold_sets or None in answer_sets:
            return False
        from sympy import Union

        return _equal(Union(*gold_sets), Union(*answer_sets))

    def value(self, text: str) -> Fraction | None:
        """The real number that `text` evaluates to, to 60 digits; None if it is not one."""
        thing = self._read(text)
        number = getattr(thing, "is_number", False) and defined(thing)
        value = value_at(0, thing) if number else None
        if value is None:
            return None
        from sympy import Rational

        exact = Rational(value)
        return Fraction(int(exact.p), int(exact.q))

    def _read(self, text: str) -> Any:
        if text not in self._read_before:
            self._read_before[text] = _read(text)
        return self._read_before[text]


def prepare() -> None:
    """Import math-verify and build its grammar, which takes about a second; stop it from hiding a lack of memory."""
    from math_verify import grader

    logging.getLogger("math_verify").setLevel(logging.ERROR)
    # Its `except Exception` would grade an item that runs out of memory as wrong. Here that name means every kind of
    # exception except MemoryError, which then ends the item as an error.
    grader.Exception = tuple(kind for kind in Exception.__subclasses__() if kind is not MemoryError)
    for pair in _WARM_UP:
        SymPy().equal(*pair)


def _read(text: str) -> Any:
    from math_verify.parser import NormalizationConfig, normalize_latex, should_treat_as_complex

    # The grammar reads E as Euler's number, which has no index.
    text = _ENERGY.sub(r"\\mathcal{E}", text)
    # Units and boxes are already removed. The parser would take the variables of `3t` or `2d` for units.
    config = NormalizationConfig(units=False, malformed_operators=True, nits=True, boxed="none")
    latex = normalize_latex(text, config)
    try:
        thing = _converter()(is_real=not should_treat_as_complex(latex)).parse(latex)
    except MemoryError:
        raise
    except Exception:  # the parser raises many kinds where it cannot read a text
        return None
    # The parser evaluates some functions: it reads e^{-\infty} as a plain number.
    calculated = thing is not None and r"\infty" in text and not has_infinity(thing)
    return None if calculated else thing


@cache
def _converter() -> Any:
    """math-verify's reader of LaTeX, except that digits become a number without `sympify`."""
    from latex2sympy2_extended.latex2sympy2 import _Latex2Sympy  # type: ignore[import-untyped]
    from sympy import Float, Integer

    def parse_number(_: object, text: str) -> Any:
        digits = text.replace(",", "")
        if (found := _DIGITS_ONLY.fullmatch(digits)) is None:
            raise ValueError(f"not a number: {digits}")
        return Float(digits) if "." in found[0] else Integer(int(digits))

    return type("_Converter", (_Latex2Sympy,), {"parse_number": parse_number})


def _equal(gold: Any, answer: Any) -> bool:
    """Compare numerically if that is conclusive, else by math-verify; what has no value equals only its own form."""
    from sympy import MatrixBase

    if isinstance(gold, MatrixBase) and isinstance(answer, MatrixBase):
        return gold.shape == answer.shape and all(map(_equal, gold.flat(), answer.flat()))
    # Two finite values are compared at once. Only where that is not conclusive, there may be no value.
    if (verdict := equal_numerically(gold, answer)) is not None:
        return verdict
    if not (defined(gold) and defined(answer)):
        return bool(gold == answer) and not formless(gold)
    both_equations = _is_equation(gold) and _is_equation(answer)
    if both_equations and (verdict := equal_equations(gold, answer)) is not None:
        return verdict
    if any(map(_unsolvable, (gold, answer))):
        return False
    return _verified(gold, answer) and not (
        _is_term(answer) and any(_verified(other, answer) for other in _other_values(gold))
    )


def _verified(gold: Any, answer: Any) -> bool:
    from math_verify import verify

    # Its own time-outs use SIGALRM and count as wrong. The pool's are hard limits with a grade of their own.
    return bool(verify([gold], [answer], allow_set_relation_comp=True, timeout_seconds=None))


def _is_equation(thing: Any) -> bool:
    from sympy import Eq

    return isinstance(thing, Eq) and all(map(_is_term, thing.args))


def _other_values(gold: Any) -> list[Any]:
    """Values that differ from the gold; an answer that equals them too has no value, or one that rounding hides."""
    if not _is_term(gold):
        return []
    return [gold + 1, *([2 * gold] if gold.is_zero is False else [])]


def _is_term(thing: Any) -> bool:
    """Whether a number can be added."""
    from sympy import Expr

    return isinstance(thing, Expr) and not thing.is_Matrix


def _unsolvable(thing: Any) -> bool:
    """Whether an equation has no solution - two different ones may both have none - or a relation may take for ever to solve."""
    from math_verify.grader import is_relation
    from sympy import Eq, Pow, solve

    if not is_relation(thing):
        return False
    if any(power.exp.is_Integer and abs(power.exp) > _SOLVABLE for power in thing.atoms(Pow)):
        return True
    try:
        return isinstance(thing, Eq) and solve(thing, thing.free_symbols) == []
    except MemoryError:
        raise
    except Exception:  # math-verify gets the same error and does not count it as equal
        return False


def _as_set(thing: Any) -> Any:
    from math_verify.grader import Set, is_relation, unwrap_fcs

    if thing is not None and is_relation(thing) and defined(thing):
        try:
            thing = unwrap_fcs(thing).as_set()
        except (NotImplementedError, TypeError, ValueError, AttributeError):
            return None
    return thing if isinstance(thing, Set) else None
