r"""LiveBench spatial: a number or the name of a shape.

One of the last three passages in bold counts, else the last `\boxed{}`, else the answer itself. Several numbers or
shapes are no answer, which is stricter than the benchmark's own rule. Does not look for a number inside a sentence.
"""

import re

from calibsft.verify.livebench.extract import boxed, solutions
from calibsft.verify.math.words import NUMBER_WORDS

_BOLD = re.compile(r"\*\*([^*]+)\*\*")
# No other number words count.
_NUMBERS = {word: str(number) for number, word in enumerate(NUMBER_WORDS)}
_MAY_BE_QUALIFIED = ("tetrahedron", "tetrahedra", "triangle", "square")
_SHAPE = re.compile(
    r"\b(?:(?:tetr|hex|oct|dodec|icos|poly)ahedr(?:ons?|a)|triangles?|squares?|rectangles?|circles?|cubes?|spheres?"
    r"|(?:hemi|semi)(?:sphere|circle)s?|cones?|cylinders?|pyramids?|prisms?|(?:pent|hex|hept|oct|poly)agons?"
    r"|trapezoids?|trapezi(?:um|a)|rhombus(?:es)?|parallelograms?|quadrilaterals?|ellipses?)\b"
)


def is_number_or_shape(gold: str) -> bool:
    """Whether a gold belongs to this task: digits, not number words, or a shape."""
    return (gold.isascii() and gold.isdigit()) or _SHAPE.search(gold.lower()) is not None


def matches(gold: str, answer: str) -> bool:
    """Whether the answer is the gold, or has it, and no other number or shape, in bold or in a box."""
    gold = gold.lower()
    passages, box = _BOLD.findall(answer), boxed(answer).lower()
    if not passages and not box:
        passages = solutions(answer)[-1:] or [answer]
    texts = [text.strip().lower() for text in passages[-3:]]
    if any(_names_a_value(text) and not _is(gold, text) for text in texts):
        return False
    return box == gold or (not box and any(_is(gold, text) for text in texts))


def _names_a_value(text: str) -> bool:
    return text in _NUMBERS or is_number_or_shape(text)


def _is(gold: str, text: str) -> bool:
    if text == gold or _NUMBERS.get(text) == gold:
        return True
    # "two tetrahedra" is the shape. A list of shapes is too long, or names another of these.
    qualified = [shape for shape in _MAY_BE_QUALIFIED if shape in text] == [gold]
    return qualified and len(text) < 2 * len(gold) + 5
