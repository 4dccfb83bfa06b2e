r"""English words beside a value: those that join, deny, bound or change it, and those that are numbers.

Every place that skips words uses this list: "5 halves", "at least 5" and "it isn't 5" do not mean 5. The list needs only
the words that change the number. Does not parse sentences.
"""

import re
from fractions import Fraction

OR = r"(?i:(?<![A-Za-z\\])or(?![A-Za-z])|(?<=[\d)])or(?=[A-Z])|\\lor(?![a-z])|\\vee(?![a-z]))"
AND = r"(?i:(?<![A-Za-z\\])and(?![A-Za-z])|\\land(?![a-z])|\\wedge(?![a-z]))"
LINK = re.compile(rf"[,;]|{OR}|{AND}")

NUMBER_WORDS = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty",
]  # fmt: skip
_TENS = ["thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_SMALL = dict(zip([*NUMBER_WORDS, *_TENS], [*range(21), *range(30, 100, 10)], strict=True))
_SCALES = {"hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_PARTS = {"half": 2, "halves": 2, "third": 3, "thirds": 3, "quarter": 4, "quarters": 4}
_SCALED = re.compile(rf"([-+]?\d+(?:\.\d+)?) ({'|'.join(_SCALES)})", re.ASCII)

NUMERAL = (
    rf"(?:(?:{'|'.join([*_SMALL, 'dozen', 'hundred', 'thousand', 'lakh', 'crore'])}|[a-z]{{1,12}}illion)(?:s|ths?)?"
    r"|half|halves|thirds?|quarters?|fifths?|eighths?|ninths?|twelfths?|[a-z]{3,5}tieths?|gross)"
)
_DENYING = (
    r"not|cannot|never|neither|nor|either|wrong|false|incorrect|untrue|doubt|unless|except|excluding|otherwise"
    r"|alternatively|instead|maybe|perhaps|probably|hardly|unlikely|incorrectly|impossible|refuse"
)
_OFFERING = r"but|also|possibly|might|could"
_CHANGING = (
    r"no|none|without|least|most|more|less|fewer|greater|smaller|larger|than|between|over|under|above|below|beyond"
    r"|up to|minimum|maximum|near|nearly|almost|any|plus|minus|negative|squared|cubed|factorial|doubled|tripled|halved|twice|thrice"
    r"|(?:square|cube|roots?|reciprocal|inverse|opposite|multiples?|factors?|divisors?|sum|difference|product|quotient|remainder"
    r"|power|logarithm) of|divided|multipl(?:y|ied)|mod|modulo|if|increased|decreased|versus|vs|through|until|else"
)
# A contraction such as "isn't" denies too.
_DENIED = rf"(?i:(?<![a-z\\])(?:{_DENYING})(?![a-z])|n't(?![a-z]))"
DENIED = re.compile(_DENIED)
DOUBT = re.compile(rf"{OR}|{_DENIED}")
HEDGED = re.compile(rf"{OR}|{_DENIED}|(?i:(?<![a-z\\])(?:{_OFFERING})(?![a-z]))")
CHANGED = re.compile(rf"{HEDGED.pattern}|(?i:(?<![a-z\\])(?:{_CHANGING}|{NUMERAL})(?![a-z]))")


def numeral(text: str) -> Fraction | None:
    """The value of `five`, `twenty-one`, `three hundred` or `1.5 million`; None for anything else."""
    if scaled := _SCALED.fullmatch(text):
        return Fraction(scaled[1]) * _SCALES[scaled[2]]
    words = text.lower().replace("-", " ").split()
    if not words or len(words) > 4:
        return None
    if words[0] in ("minus", "negative"):
        value = numeral(" ".join(words[1:]))
        return value if value is None else -value
    if words[-1] in _PARTS:
        count = _SMALL.get(words[0]) if len(words) == 2 else 1 if words == ["half"] else None
        return None if count is None else Fraction(count, _PARTS[words[-1]])
    scale = _SCALES.get(words[-1], 1) if len(words) > 1 else 1
    match [_SMALL.get(word) for word in (words[:-1] if scale > 1 else words)]:
        case [int(number)]:
            return Fraction(number * scale)
        case [int(tens), int(ones)] if tens in range(20, 100, 10) and ones in range(1, 10):
            return Fraction((tens + ones) * scale)
    return None
