r"""Decide whether two single values are equal: words, numbers, tuples and equations here, others by computer algebra.

What these rules decide is exact. Does not split lists: every text here is one value, though a tuple, a set or an equation
may have several parts.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from calibsft.verify.math.algebra import Algebra
from calibsft.verify.math.limits import beyond_algebra
from calibsft.verify.math.lists import bracketed, chain, components, matched, values
from calibsft.verify.math.numbers import in_base, last_place, number
from calibsft.verify.math.text import squeeze
from calibsft.verify.math.units import (
    different_units,
    known_unit,
    same_unit,
    split_letter_unit,
    split_percent,
    split_unit,
)
from calibsft.verify.math.words import CHANGED

_TEXT = re.compile(r"\\text\{\s*([^{}]*?)\s*\}")
_CHOICE = re.compile(r"(?:\\text\{)?\s*\(?\s*([A-Z])\s*[).:]?\s*\}?\s*[.:]?")
_EXPLAINED = re.compile(r"\(?([A-Z])\) ([^()=]{2,}|\d)")
_ARTICLE = re.compile(r"^(?:[Aa]n?|[Tt]he) ")
_WORD = re.compile(r"[A-Za-z][A-Za-z' -]+")
_VOWEL = re.compile(r"[aeiou]", re.IGNORECASE)
_LONGEST_PRODUCT = 4
_MEMBER = re.compile(r"^[^=<>]*?\\in(?![a-z])")
_APPROXIMATELY = re.compile(r"\\(?:approx|simeq)(?![a-z])")
_SCRIPT = re.compile(r"[_^]\s*(?:\{[^{}]*\}|\\prime|\\[a-z]+|[^\s\\{}])|'")
_APPLIED = re.compile(r"[A-Za-z]\s*\([A-Za-z0-9, ]*\)")
_OF_ONE = re.compile(r"([A-Za-z])\([a-z]\)")
_NOT_IN_A_NAME = re.compile(r"\d|[-+^!<>]|\\(?:cdot|times|sqrt|sin|cos|tan|log|ln)(?![a-z])")
_LETTER = re.compile(r"(?<!\\)(?<![A-Za-z])[A-Za-z]|\\(?:alpha|beta|theta|omega|angle)")
_NOT_SCALAR = re.compile(
    r"[,;<>=]|\\(?:le|ge|ne|in|cup|cap|pm|mp|infty|begin|text|emptyset|mathbb|ldots|dots|\{)(?![a-z])"
)
# A word; computer algebra would read it as a product of letters.
_ENGLISH = re.compile(r"(?<![A-Za-z\\{])[A-Za-z]{4,}")
# Two numbers side by side; computer algebra would add or multiply them.
_TWO_NUMBERS = re.compile(r"(?<![_^{\d])\d+\s+\d")
_NEARLY = 10**6


@dataclass(frozen=True, slots=True)
class Comparison:
    """Compares values by an algebra, with absolute tolerances: none, one for all, or one for each component."""

    algebra: Algebra
    errors: Sequence[Fraction] = ()

    def equal(self, gold: str, answer: str) -> bool:
        """Whether one value equals one gold value."""
        if squeeze(gold) == squeeze(answer):
            return True
        if (verdict := _same_word(gold, answer)) is not None:
            return verdict
        gold, answer = _exact_side(gold), _exact_side(answer)
        gold_sides, answer_sides = chain(_MEMBER.sub("", gold)), chain(_MEMBER.sub("", answer))
        if len(gold_sides) == len(answer_sides) == 1:
            return self._equal_terms(gold_sides[0], answer_sides[0])
        return bool(gold_sides and answer_sides) and self._equal_equations(gold_sides, answer_sides)

    def _equal_equations(self, gold: list[str], answer: list[str]) -> bool:
        """The gold's form decides: `x=1` accepts `1`, `2x+z=1` does not. Every side of `2+3=5` must be right."""
        if len(answer) > 1 and _contradicts_itself(answer):
            return False
        if len(gold) == 1:
            return all(self._equal_terms(gold[0], side) for side in _claims(gold[0], answer))
        if _is_name(gold[0]) and (len(answer) == 1 or _same_name(gold, answer)):
            return self._equal_terms(gold[-1], answer[-1])
        equations = " = ".join(gold), " = ".join(answer)
        return len(answer) > 1 and not any(map(beyond_algebra, equations)) and self.algebra.equal(*equations)

    def _equal_terms(self, gold: str, answer: str) -> bool:
        gold, percent = split_percent(gold)
        answer, answer_percent = split_percent(answer)
        (gold, unit), (answer, answer_unit) = split_unit(gold), split_unit(answer)
        if not answer_unit and number(gold) is not None and number(answer) is None:
            answer, answer_unit = split_letter_unit(answer)
        elif not unit and same_unit(answer_unit, (lettered := split_letter_unit(gold))[1]):
            gold, unit = lettered
        if different_units(unit, answer_unit):
            return False
        if percent != answer_percent and (
            known_unit(answer_unit if percent else unit) or r"\infty" in gold + answer
        ):
            return False
        if self._equal_bare(gold, answer):
            return True
        if percent == answer_percent:
            return False
        if percent:
            return self._equal_bare(rf"\frac{{{gold}}}{{100}}", answer)
        return self._equal_bare(gold, rf"\frac{{{answer}}}{{100}}")

    def _equal_bare(self, gold: str, answer: str) -> bool:
        """Compare values without equals signs, percent signs and units."""
        if (based := in_base(gold)) is not None:
            return in_base(answer) == based or squeeze(answer) == based[0]
        gold_number, answer_number = number(gold), number(answer)
        if gold_number is not None and answer_number is not None:
            return self._near(gold_number, answer_number, gold, answer)
        if (parts := _parts(gold, answer)) is not None:
            return self._equal_parts(*parts)
        if beyond_algebra(gold) or beyond_algebra(answer) or _TWO_NUMBERS.search(answer):
            return False
        scalars = [_NOT_SCALAR.search(text) is None for text in (gold, answer)]
        if scalars[0] != scalars[1] and (_is_compound(gold) or _is_compound(answer)):
            return False
        if gold_number is not None and _ENGLISH.search(answer):
            return False
        if self.errors and (value := self.algebra.value(gold)) is not None:
            offered = self.algebra.value(answer)
            return offered is not None and abs(offered - value) <= self.errors[0]
        return self.algebra.equal(gold, answer)

    def _near(self, gold: Fraction, answer: Fraction, gold_text: str, answer_text: str) -> bool:
        """Whether two numbers agree within the tolerance; without one, whether they are equal or one is rounded to at least six digits."""
        if self.errors:
            return abs(gold - answer) <= self.errors[0]
        places = [place for place in map(last_place, (gold_text, answer_text)) if place is not None]
        cut_off = bool(places) and abs(gold - answer) < max(places)
        return gold == answer or (cut_off and abs(gold - answer) * _NEARLY <= abs(gold))

    def _equal_parts(self, ordered: bool, gold: list[str], answer: list[str]) -> bool:
        if not ordered:
            return matched(gold, answer, lambda i, j: self.equal(gold[i], answer[j]))
        return len(gold) == len(answer) and all(
            self._for_part(position, len(gold)).equal(*pair)
            for position, pair in enumerate(zip(gold, answer, strict=True))
        )

    def _for_part(self, position: int, count: int) -> "Comparison":
        """The comparison of one of `count` components, with its own tolerance if there is one for each."""
        return Comparison(self.algebra, [self.errors[position]]) if len(self.errors) == count else self


def _is_compound(text: str) -> bool:
    """Whether `text` is a tuple, an interval, a set or a matrix; none of them equals a single number."""
    opening, inner = bracketed(text)
    return (bool(opening) and len(components(inner)) > 1) or text.startswith(r"\begin{") or r"\cup" in text


def in_order(gold: str, answers: Sequence[str], compare: Comparison) -> bool:
    """Whether `answers` are the components of the tuple `gold`, without its brackets."""
    sides = chain(gold)
    opening, inner = bracketed(sides[-1]) if sides else ("", "")
    return opening == "(" and compare._equal_parts(True, components(inner), list(answers))


def _parts(gold: str, answer: str) -> tuple[bool, list[str], list[str]] | None:
    """Whether the order counts, and the parts of two tuples, intervals or sets; None if they are not both of one kind."""
    (opening, gold_inner), (answer_opening, answer_inner) = bracketed(gold), bracketed(answer)
    if not opening or not answer_opening or "," not in gold.replace(";", ","):
        return None
    if opening in ("{", r"\{") and answer_opening in ("{", r"\{"):
        return False, values(gold), values(answer)
    if opening != answer_opening or gold[-1] != answer[-1]:
        return None
    return True, components(gold_inner), components(answer_inner)


def _same_word(gold: str, answer: str) -> bool | None:
    """Compare choices such as `(A)`, and words without regard to case; None if the gold is neither."""
    choice, answer_choice = _CHOICE.fullmatch(gold), _CHOICE.fullmatch(answer)
    if choice and answer_choice:
        return choice[1] == answer_choice[1]
    if choice and (explained := _EXPLAINED.fullmatch(answer)) and not CHANGED.search(explained[2]):
        return choice[1] == explained[1]
    word, answer_word = (_ARTICLE.sub("", _TEXT.sub(r"\1", text).strip()) for text in (gold, answer))
    if not _WORD.fullmatch(word):
        return None
    if word.casefold() == answer_word.casefold():
        return True
    letters = word.replace(" ", "")
    is_word = letters.isalpha() and not _is_product(letters) and number(word) is None
    return False if _TEXT.fullmatch(gold) or is_word else None


def _is_product(letters: str) -> bool:
    """Whether letters are a product of variables and not a word: they have no vowels, or are among a, b, c and d."""
    named = letters.isupper() and len(letters) > 2  # corners of a figure, or an order of options
    return (
        len(letters) <= _LONGEST_PRODUCT
        and not named
        and (not _VOWEL.search(letters) or set(letters) <= set("abcd"))
    )


def _exact_side(text: str) -> str:
    """The side before an approximation sign; if that side is a name, an equation of both sides."""
    before, *after = _APPROXIMATELY.split(text, maxsplit=1)
    return text if not after else f"{before} = {after[0]}" if _is_name(before) else before


def _is_name(text: str) -> bool:
    """Whether `text` is a name of a value - `x`, `a_n`, `f(2)`, `(p,q)`, `|AB|` - and computes nothing."""
    bare = _APPLIED.sub("f", _SCRIPT.sub("", text))
    return bool(bare.strip()) and not _NOT_IN_A_NAME.search(bare)


def _claims(gold: str, answer: list[str]) -> list[str]:
    """The sides of an answer that must equal the gold: no leading name, and no inner side with other letters."""
    letters = set(_LETTER.findall(gold))
    named = len(answer) > 1 and _is_name(answer[0])
    return [side for side in answer[named:-1] if set(_LETTER.findall(side)) <= letters] + answer[-1:]


def _same_name(gold: list[str], answer: list[str]) -> bool:
    """Whether two equations have the same name; `f(x)=1` and `f(n)=1` do, because the value is constant."""
    names = squeeze(gold[0]), squeeze(answer[0])
    constant = not _LETTER.search(gold[-1] + answer[-1])
    return names[0] == names[1] or (constant and len({_OF_ONE.sub(r"\1", name) for name in names}) == 1)


def _contradicts_itself(sides: list[str]) -> bool:
    """Whether the sides of an answer are different numbers, as in `5=6` or `x=5=6`."""
    numbers = [number(split_unit(side)[0]) for side in sides]
    if numbers[0] is None and _is_name(sides[0]):
        numbers = numbers[1:]
    return None not in numbers and len(set(numbers)) > 1
