r"""Grader `math`: the same values as the gold's, in any notation.

Both sides are cleaned, split into values and matched one to one. Equal texts and plain numbers are compared at once and
exactly, the rest by computer algebra. A list offers several values, so it never equals one value.

Does not look for the answer inside a response (that is `responses`), and never executes text.
"""

import re
from fractions import Fraction
from itertools import product

from calibsft.schema import Grade
from calibsft.verify.grader import GradeItem, Grader, best
from calibsft.verify.math.algebra import Algebra, SymPy, Undecided, prepare
from calibsft.verify.math.limits import too_large
from calibsft.verify.math.lists import bracketed, components, matched, readings
from calibsft.verify.math.numbers import tolerances
from calibsft.verify.math.text import clean, squeeze
from calibsft.verify.math.values import Comparison, in_order
from calibsft.verify.math.words import AND, OR

_INEQUALITY = re.compile(r"[<>]|\\le |\\ge |\\ne ")
_SET = re.compile(r"[<>]|\\le |\\ge |\\ne |\\cup|\\infty|(=)")


def grade(item: GradeItem) -> Grade:
    """Grade an answer against every alias."""
    return best(_compare(gold, item, SymPy()) for gold in item.golds)


def quick(item: GradeItem) -> Grade | None:
    """The grade, if no alias needs computer algebra; else None."""
    grades: list[Grade] = []
    undecided = False
    for gold in item.golds:
        try:
            grades.append(_compare(gold, item, Algebra()))
        except Undecided:
            undecided = True
    return Grade.CORRECT if Grade.CORRECT in grades else None if undecided else best(grades)


def _compare(gold: str, item: GradeItem, algebra: Algebra) -> Grade:
    """Whether the answer equals one gold.

    A gold or a tolerance that is empty, broken or over `limits` is `UNPARSED_GOLD`, whatever the answer is. A sound gold
    that computer algebra cannot read is compared as text.
    """
    errors = tolerances(item.tolerance)
    # Sizes come first: no other step may work on a megabyte of text.
    if errors is None or too_large(gold) or not _sound(gold := clean(gold)):
        return Grade.UNPARSED_GOLD
    gold_readings = [(values, own) for values in readings(gold) if (own := _allot(errors, values))]
    if not gold_readings:
        return Grade.UNPARSED_GOLD
    if too_large(item.answer) or too_large(answer := clean(item.answer)):
        return Grade.TOO_LARGE
    if not any(answer_readings := readings(answer)):
        return Grade.UNPARSED_ANSWER
    if squeeze(gold) == squeeze(answer):
        return Grade.CORRECT
    links = _Links(gold, answer)
    if not links.clash and any(
        _same(values, offered, allotted, algebra, links)
        for (values, allotted), offered in product(gold_readings, answer_readings)
    ):
        return Grade.CORRECT
    return Grade.UNPARSED_ANSWER if algebra.unread else Grade.INCORRECT


class _Links:
    """How the values of a gold and of an answer are joined."""

    def __init__(self, gold: str, answer: str) -> None:
        # Whether the gold writes one value in several ways.
        self.alternatives = re.search(OR, gold) is not None
        # The values of a set or of alternatives have no order.
        self.ordered = not (re.search(OR, answer) or r"\{" in answer)
        both = [
            re.search(AND, text) is not None and bool(_INEQUALITY.search(text)) for text in (gold, answer)
        ]
        united = [re.search(rf"{OR}|\\cup", text) is not None for text in (gold, answer)]
        # Whether one side joins inequalities by "and" and the other by "or".
        self.clash = (both[0] and united[1]) or (both[1] and united[0])
        # Several inequalities mean their union unless "and" joins them.
        self.united = not any(both)


def _sound(gold: str) -> bool:
    return bool(gold) and gold.count("{") == gold.count("}") and not too_large(gold)


def _allot(errors: list[Fraction], values: list[str]) -> list[list[Fraction]] | None:
    """The tolerances of each value: one for all, one each, or one for each component of a lone tuple."""
    if len(errors) <= 1 or (len(values) == 1 and len(errors) == len(components(bracketed(values[0])[1]))):
        return [errors] * len(values)
    return [[error] for error in errors] if len(errors) == len(values) else None


def _same(
    golds: list[str], answers: list[str], allotted: list[list[Fraction]], algebra: Algebra, links: _Links
) -> bool:
    """Whether the answer has the gold's values, each equally often."""
    compare = [Comparison(algebra, errors) for errors in allotted]
    if len(golds) == len(answers):
        return matched(golds, answers, lambda gold, answer: compare[gold].equal(golds[gold], answers[answer]))
    if len(golds) == 1 and links.ordered and in_order(golds[0], answers, compare[0]):
        return True
    one_way = len(answers) == 1 and links.alternatives
    if one_way and all(c.equal(gold, answers[0]) for c, gold in zip(compare, golds, strict=True)):
        return True
    return links.united and _united(golds, answers, algebra)


def _united(golds: list[str], answers: list[str], algebra: Algebra) -> bool:
    """Whether the inequalities or intervals of both sides have the same union."""
    signs = [_SET.search(text) for text in golds + answers]
    return all(signs) and any(sign and not sign[1] for sign in signs) and algebra.same_set(golds, answers)


def gold_answers(golds: tuple[str, ...]) -> list[str]:
    """Every gold bare, and then each inside a box."""
    return [*golds, *(f"\\boxed{{{gold}}}" for gold in golds)]


MATH = Grader(
    "math", version=4, grade=grade, isolated=True, quick=quick, prepare=prepare,
    symmetric=True, gold_answers=gold_answers,
)  # fmt: skip
