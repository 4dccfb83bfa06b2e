r"""Grader `math`: the same mathematical value, judged by math-verify, else the same text.

Prepares both sides for math-verify 0.9, which reads bare `\sqrt{8}`, `(1,2)` or `8.7e8` wrongly: strips
invisible characters, unwraps, rewrites e-notation, delimits. Equal text and plain numbers are settled
without it. Adds one rule of its own: an answer that offers several values is not one right answer.

Does not look for the answer inside a response (that is `responses`), and never evaluates text: only
math-verify's LaTeX grammar reads it, not its plain-expression reader, which calls `parse_expr`.
"""

import logging
import re
import unicodedata
from fractions import Fraction
from typing import Any

from calibsft.schema import Grade
from calibsft.verify.grader import GradeItem, Grader, best
from calibsft.verify.limits import too_large

_WRAPPERS = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"))
_LEAD_IN = re.compile(r"[A-Z](?:(?! or )[A-Za-z' ,])*? (?:is|are|equals):? (?=\S)")
_MIXED = re.compile(r"(?<![\d.^_/])(\d+) (\d+)/(\d+)(?![\d.])", re.ASCII)
_DOLLARS = re.compile(r"\\\$| dollars?\.?$")
_WORD_PI = re.compile(r"(?<![A-Za-z\\])pi(?![A-Za-z])")
_SPACING = re.compile(r"\s|\\left|\\right|\\[!,;: ]")
_E_NOTATION = re.compile(r"(?<![\w.\\])(\d+\.?\d*|\.\d+)[eE]([+-]?\d{1,3})(?![\w.{^])", re.ASCII)
_TEX_COMMA = re.compile(r"(?<=\d)(?:\{,\}|,\\! ?)(?=\d{3}(?!\d))", re.ASCII)
_THOUSANDS = re.compile(r"(?<![\d.])\d{1,3}(?:[, ]\d{3})+(?!\d)", re.ASCII)
_NUMBER = re.compile(
    r"([+-]?(?:\d+\.?\d*|\.\d+))(?:\s*(?:\\times|\\cdot|\*)\s*10\s*\^\s*(?:\{\s*([+-]?\d{1,4})\s*\}|(\d)))?",
    re.ASCII,
)
_WORD_OR = r"(?<![A-Za-z\\])or(?![A-Za-z])|\\lor(?![a-z])|\\vee(?![a-z])"
_WORD_AND = r"(?<![A-Za-z\\])and(?![A-Za-z])"
_GAP = r"(?:\s|\\quad|\\qquad|\\[ ,;]|[$}])"
_MENTIONS_SEVERAL = re.compile(rf"[,;]|\\pm|\\mp|\\cup|\\boxed|{_WORD_OR}|{_WORD_AND}")
_OFFERS_SEVERAL = re.compile(
    rf"{_WORD_OR}|(?:[,;]|{_WORD_AND}){_GAP}*[-+\d\\(]|(?<![\d_^.])\d+{_GAP}+\d+(?![\d\s]*/)"
)
_GROUPED = re.compile(r"[(\[][^()\[\]]*[)\]]")


def grade(item: GradeItem) -> Grade:
    """Judge an answer against every alias."""
    return best(compare(gold, item.answer) for gold in item.golds)


def quick(item: GradeItem) -> Grade | None:
    """The grade, where no alias needs computer algebra to be compared."""
    grades = [compare_quickly(gold, item.answer) for gold in item.golds]
    if Grade.CORRECT in grades:
        return Grade.CORRECT
    settled = [grade for grade in grades if grade is not None]
    return best(settled) if len(settled) == len(grades) else None


def compare(gold: str, answer: str) -> Grade:
    """Whether `answer` equals `gold` as mathematics.

    Parameters
    ----------
    gold, answer
        LaTeX or plain text, bare or delimited. The order matters: math-verify follows the gold's form,
        so gold `x=5` accepts `5` and gold `2x+z=1` does not accept `1`.

    Returns
    -------
    Grade
        `UNPARSED_GOLD` for a gold that is empty, broken or over `limits`, whatever the answer: were it to
        spare wrong answers only, it would raise the accuracy. A gold that is sound but beyond
        math-verify's grammar is compared as text. `TOO_LARGE` and `UNPARSED_ANSWER` speak of the answer.
    """
    return compare_quickly(gold, answer) or _grade_symbolically(_clean(gold), _clean(answer))


def compare_quickly(gold: str, answer: str) -> Grade | None:
    """Settle what needs no computer algebra: empty, oversized or equal texts, and plain numbers."""
    # Sizes come first: nothing else may walk through a megabyte.
    if too_large(gold) or not (gold := _clean(gold)) or gold.count("{") != gold.count("}"):
        return Grade.UNPARSED_GOLD
    if too_large(answer):
        return Grade.TOO_LARGE
    if not (answer := _clean(answer)):
        return Grade.UNPARSED_ANSWER
    if gold == answer:
        return Grade.CORRECT
    return _compare_numbers(_number(gold), _number(answer))


def prepare() -> None:
    """Import math-verify and build its grammar, which takes about a second."""
    _grade_symbolically("x+1", "1+x")


def _clean(text: str) -> str:
    """One line of bare LaTeX: nothing invisible, no lead-in, currency or wrapping, numbers in one notation."""
    kept = (c if c.isspace() or unicodedata.category(c) not in ("Cc", "Cf", "Cs") else "" for c in text)
    text = " ".join("".join(kept).split())
    text = _LEAD_IN.sub("", text, count=1) if _LEAD_IN.match(text) else text
    text = _DOLLARS.sub("", text)
    if text.count("$") % 2:  # a currency sign, not a delimiter
        text = text.replace("$", "")
    while (inner := _unwrap(text)) != text:
        text = inner
    text = _MIXED.sub(r"\1\\frac{\2}{\3}", text)
    text = _WORD_PI.sub(r"\\pi ", _TEX_COMMA.sub("", text))
    return _E_NOTATION.sub(lambda m: rf"{m[1]} \times 10^{{{int(m[2])}}}", text)


def _unwrap(text: str) -> str:
    if text.endswith(".") and not text.endswith(".."):
        return text[:-1].rstrip()
    before, _, rest = text.partition(r"\boxed{")
    end = _closing_brace(rest)
    # One box is the answer whatever is said around it, unless that is "or": then the box is a hedge.
    if end >= 0 and r"\boxed{" not in rest and not re.search(_WORD_OR, before + rest[end:]):
        return rest[:end].strip()
    for left, right in _WRAPPERS:
        inner = text[len(left) : -len(right)]
        if (
            text.startswith(left)
            and text.endswith(right)
            and inner
            and not re.search(r"\$|\\[()\[\]]|\\boxed", inner)
        ):
            return inner.strip()
    return text


def _closing_brace(text: str) -> int:
    """Where the brace that was opened before `text` closes; -1 if it does not."""
    depth = 1
    for position, character in enumerate(text):
        depth += (character == "{") - (character == "}")
        if depth == 0:
            return position
    return -1


def _number(text: str) -> Fraction | None:
    if (found := _NUMBER.fullmatch(_join_thousands(text))) is None:
        return None
    return Fraction(found[1]) * Fraction(10) ** int(found[2] or found[3] or 0)


def _join_thousands(text: str) -> str:
    # Not part of cleaning: in (12,102) the comma separates two numbers.
    return _THOUSANDS.sub(lambda m: re.sub("[, ]", "", m[0]), text)


def _compare_numbers(gold: Fraction | None, answer: Fraction | None) -> Grade | None:
    """Compare exactly; leave to math-verify only decimals that differ by less than a millionth part.

    math-verify rounds decimals to six places, for which 1.2e-9 and 0.0000000013 would be the same.
    """
    if gold is None or answer is None:
        return None
    if gold == answer:
        return Grade.CORRECT
    whole = gold.denominator == answer.denominator == 1
    return Grade.INCORRECT if whole or abs(gold - answer) * 10**6 > abs(gold) else None


def _grade_symbolically(gold: str, answer: str) -> Grade:
    """Let math-verify compare two cleaned texts. Runs in a worker only: it may take for ever."""
    gold_readings, answer_readings = _read(gold), _read(answer)
    from math_verify import verify

    # Its own time-outs use SIGALRM and count as wrong; the pool's are hard and counted apart.
    if verify(gold_readings, answer_readings, allow_set_relation_comp=True, timeout_seconds=None):
        return Grade.INCORRECT if _offers_several(gold, answer) else Grade.CORRECT
    if all(isinstance(reading, str) for reading in gold_readings):
        same = _SPACING.sub("", gold) == _SPACING.sub("", answer)
        return Grade.CORRECT if same else Grade.INCORRECT
    if all(isinstance(reading, str) for reading in answer_readings):
        return Grade.UNPARSED_ANSWER
    return Grade.INCORRECT


def _read(text: str) -> list[Any]:
    from math_verify import LatexExtractionConfig, parse

    logging.getLogger("math_verify").setLevel(logging.ERROR)
    delimited = any(mark in text for mark in ("$", r"\(", r"\[", r"\boxed{"))
    readings = parse(text if delimited else f"${text}$", [LatexExtractionConfig()], parsing_timeout=None)
    return list(readings)


def _offers_several(gold: str, answer: str) -> bool:
    """Whether the answer hedges ("5 or 6", "5, 5", "5 6") where the gold is a single value."""
    while (flat := _GROUPED.sub("", answer)) != answer:
        answer = flat
    return (
        _OFFERS_SEVERAL.search(_join_thousands(answer)) is not None and _MENTIONS_SEVERAL.search(gold) is None
    )


MATH = Grader("math", version=1, grade=grade, isolated=True, quick=quick, prepare=prepare)
