"""How a confidence is written: the four formats, their strict grammars, and the paper's system prompts.

A format turns an exact value into text (`render`) and text into an exact value. `read` takes the format's own ASCII
grammar, which a well-formed response keeps to. `stated` is for scores and takes any plain decimal as a probability.
`float()` never gets model text, since it reads "nan", "1_0" and Arabic digits as numbers.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from calibsft.errors import unknown_name

_OPENING = (
    "A conversation between User and Assistant. The user asks a question, and the Assistant solves it. The"
    " assistant first thinks about the reasoning process in the mind and analyzes its confidence about the"
    " solution and then provides the user with the final answer as well as its confidence"
)
_CLOSING = (
    " The <answer> tag must contain only the final answer string needed for exact-match evaluation, not a full"
    " sentence, explanation, or reasoning."
)
_LAYOUT = (
    " The response must strictly follow this format: <think> reasoning process here </think> <answer> final short"
    " answer only </answer> <confidence>"
)

PROBABILITY_PROMPT = (
    f"{_OPENING} level. The confidence level indicates how certain the Assistant is about its answer, expressed as"
    " a decimal between 0 and 1 with exactly two decimal places, enclosed within <confidence> </confidence> tags."
    f"{_LAYOUT} 0.xx </confidence>.{_CLOSING}"
)
INTEGER_PROMPT = (
    f"{_OPENING} score. The confidence score indicates how certain the Assistant is about its answer, expressed as"
    " a single integer from 0 to 9, enclosed within <confidence> </confidence> tags. A score of 0 means very low"
    " confidence and the answer is likely incorrect. A score of 9 means very high confidence and the answer is very"
    f" likely correct.{_LAYOUT}X</confidence>, where X is one of 0, 1, 2, 3, 4, 5, 6, 7, 8, 9.{_CLOSING}"
)
LINGUISTIC_PROMPT = (
    f"{_OPENING} level. The confidence level indicates how certain the Assistant is about its answer, expressed as"
    " exactly one of low, medium, or high, enclosed within <confidence> </confidence> tags. Low means the answer is"
    " likely incorrect, medium means the answer is uncertain, and high means the answer is likely correct."
    f"{_LAYOUT}label</confidence>.{_CLOSING}"
)


def _nearest(value: Fraction, steps: int) -> int:
    """`value` in units of 1/steps, halves rounded up."""
    return int(value * steps + Fraction(1, 2))


def _two_decimals(hundredths: int) -> str:
    return f"{hundredths // 100}.{hundredths % 100:02d}"


def _render_label(value: Fraction) -> str:
    if value < Fraction(1, 3):
        return "low"
    return "medium" if value < Fraction(2, 3) else "high"


@dataclass(frozen=True, slots=True)
class Format:
    """One way of writing a confidence.

    Attributes
    ----------
    values
        The grammar: every text of a valid confidence, with its exact value.
    text_of
        The text nearest to a value in [0, 1].
    decimal
        Whether a confidence is written as a decimal; scores then read any plain decimal in [0, 1]. In the other formats a
        text outside the grammar has no defined value, so scores read the grammar alone.
    """

    name: str
    system_prompt: str
    values: Mapping[str, Fraction] = field(repr=False, hash=False)
    text_of: Callable[[Fraction], str]
    decimal: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """Every text of the grammar."""
        return tuple(self.values)

    def value_of(self, word: str) -> Fraction:
        """The exact value of a text of the grammar."""
        return self.values[word]

    def read(self, text: str) -> Fraction | None:
        """The value of `text`, None if it is not in the grammar."""
        return self.values.get(text)

    def stated(self, text: str) -> Fraction | None:
        """The value of `text` as scores read it, None if it is unreadable."""
        return plain_decimal(text) if self.decimal else self.read(text)

    def exact(self, number: float) -> Fraction:
        """The exact stated value that a table has as the float `number`."""
        if self.decimal:
            return Fraction(repr(number))
        return next(value for value in self.values.values() if float(value) == number)

    def render(self, value: Fraction) -> str:
        """The text for `value`, which lies in [0, 1]."""
        if not 0 <= value <= 1:
            raise ValueError(f"confidence {value} is outside [0, 1]")
        return self.text_of(value)


# The longest text of a double from 0.0001 on has 20 decimals; a text with more is no confidence.
_PLAIN_DECIMAL = re.compile(r"[01]\.?|[01]?\.[0-9]{1,20}")


def plain_decimal(text: str) -> Fraction | None:
    """The exact value of a plain decimal in [0, 1], such as 0.9, .9, 1 or 0.875; None for anything else.

    It has ASCII digits, at most one point, and at most a 0 or 1 before the point: no sign, exponent, underscore, percent
    sign, comma or digits of other scripts.
    """
    if not _PLAIN_DECIMAL.fullmatch(text):
        return None
    whole, _, decimals = text.partition(".")
    value = Fraction(int(whole + decimals), 10 ** len(decimals))
    return value if value <= 1 else None


_DECIMALS = {_two_decimals(hundredths): Fraction(hundredths, 100) for hundredths in range(101)}
_DIGITS = {str(digit): Fraction(digit, 9) for digit in range(10)}
_LABELS = {"low": Fraction(1, 4), "medium": Fraction(1, 2), "high": Fraction(3, 4)}


def _probability(name: str, steps: int) -> Format:
    def text_of(value: Fraction) -> str:
        return _two_decimals(_nearest(value, steps) * (100 // steps))

    return Format(name, PROBABILITY_PROMPT, _DECIMALS, text_of, decimal=True)


FORMATS = {
    "probability": _probability("probability", 100),
    "probability-0.05": _probability("probability-0.05", 20),
    "integer": Format("integer", INTEGER_PROMPT, _DIGITS, lambda value: str(_nearest(value, 9))),
    "linguistic": Format("linguistic", LINGUISTIC_PROMPT, _LABELS, _render_label),
}


def get_format(name: str) -> Format:
    """The format called `name`; refuses an unknown name and suggests the nearest known one."""
    if name not in FORMATS:
        unknown_name("confidence format", name, list(FORMATS))
    return FORMATS[name]


def messages(question: str, confidence_format: Format) -> list[dict[str, str]]:
    """The conversation that asks `question`: the format's system prompt and the user turn."""
    return [
        {"role": "system", "content": confidence_format.system_prompt},
        {"role": "user", "content": f"\n\nPROBLEM: {question}\n\n"},
    ]
