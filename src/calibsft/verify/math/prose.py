r"""Remove the prose around an answer: lead-ins, sentences, boxes and delimiters of formulas.

Only a few forms of prose are known not to change the answer. Words that deny, bound or change it, or offer another one,
stay; the answer is then wrong because it is not a value. Does not rewrite formulas.
"""

import re

from calibsft.verify.math.words import AND, CHANGED, DENIED, DOUBT, HEDGED, LINK, NUMERAL, OR, numeral

_LABEL = re.compile(
    r"(?i:(?:the |my |so |final )*(?:answer|total|result|solution|ans)) ?: ?(?=\S)|#### ?|(?i:so|thus|hence|therefore),? (?=[-\d\\$])"
    r"|(?i:about|approximately|roughly) (?=[\d\\$])|\\approx(?![a-z])|(?i:option|choice) (?=\(?[A-Z]\)?$)"
)
_NEGATIVE = re.compile(r"(?i:minus|negative) (?=[\d\\$.])")
_IS_THE_ANSWER = re.compile(
    r" (?:is|are) (?:the|my) (?:final |correct |right )?(?:answer|result|solution)s?$"
)
_AMOUNT = r"(?:\d+(?:\.\d*)?|\.\d+)(?: ?\\?%| percent)?|(?:very )?(?:high|low|medium)"
_CONFIDENCE = re.compile(
    r"(?i:[.,;]? ?\(?(?:and |with )?(?:an? |my |the )?confidence(?: level)?(?: (?:for|in|of) (?:this|my|the) answer)?"
    rf"(?: is| of| ?:)? (?:{_AMOUNT})\)?[. ]*$)"
)
_SENTENCE = re.compile(r"[A-Za-z][a-z]*[ ,]")
_IS = re.compile(
    r"(?<!there) (?:is|are|was|were|equals|will be)(?! [a-z]+ed(?![a-z])):?(?: (?:currently|now|exactly|approximately|about))* (?=\S)"
)
_FORMULA = re.compile(r"[\d\\$]")
_MARKUP = re.compile(r"\*\*([^*]+)\*\*|`([^`]+)`")
_QUOTED = re.compile(r"\*([^*]+)\*|[“\"]([^“”\"]+)[”\"]")
_GLOSSED = re.compile(r"(\d+) \(([A-Za-z -]+)\)", re.ASCII)
_BOX = re.compile(r"\\f?boxed\s*\{|\\fbox\s*\{|\\underline\s*\{")
_BRACE = re.compile("[{}]")
_SENTENCE_END = re.compile(r"[.!?](?:\$|\\[)\]])* ")
_GROUP = re.compile(r"\$\$([^$]+)\$\$|\$([^$]+)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]")
_INTRODUCED = re.compile(r"[A-Za-z][A-Za-z ,']*: ?(\$[^$]+\$|\$\$[^$]+\$\$)")
_PROSE = re.compile(rf"(?!{OR}|{AND})(?<![A-Za-z\\])[A-Za-z]{{2,}}")
_PERCENT_NEXT = re.compile(r"\s*(?:\\?%|(?:percent|pct)\b)")

_PLAIN_NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?:/\d+)?(?: ?%)?(?!\w)", re.ASCII)
_WORDS = re.compile(r"[A-Za-z]+(?:[ ,']+[A-Za-z]+)+ ")
_NO_SENTENCE = re.compile(r"[\\$^=_{}<>]")

_CLOSING = re.compile(r"^(?:[$)\] ]|\\[)\]])*")
_ENVIRONMENT_END = re.compile(r"\\end\s*\{[a-z]*\*?\}$")
_ENDING = "$]\\ ."
_DELIMITERS = "$()[]\\ "
# The end of the formula before a box: a word, an arrow, an equals sign, a colon or the end of a sentence.
_BREAK = re.compile(
    rf"{_PROSE.pattern}|(?<![A-Za-z\\])a |'s |\\(?:begin|end)\s*\{{[a-z]*\*?\}}|\\(?:therefore|implies|equiv|approx|simeq|in|to|[a-zA-Z]*arrow)(?![a-zA-Z])|[=:]|[.!?] "
)
_CLAUSE = re.compile(rf"[=:]|{LINK.pattern}")
_SCALED_BEFORE = re.compile(
    rf"(?i:(?<![a-z])(?:{NUMERAL}|twice|thrice|minus|negative|plus|(?:half|third|root|square|cube|reciprocal|opposite) of)$)"
)
_SCALED_AFTER = re.compile(
    rf"(?i:(?:{NUMERAL}|squared|cubed|factorial|doubled|tripled|halved|plus|minus|at most|at least)(?![a-z-]))"
)
_MATTER = re.compile(r"[0-9A-Za-z+*/^<>-]")
_LAYOUT = re.compile(r"\\(?:n|q?quad|displaystyle|left|right|text|[,;:! ])(?![a-z])")
_VALUE = rf"(?:[-+]?[\d.]*\d|\\(?:frac|sqrt|pi)(?![a-z])|(?i:{NUMERAL})(?![a-z-])|[A-Za-z](?! ?[A-Za-z]))"
_SKIPPED = r"(?:[^0-9A-Za-z\\*/^_<>=!+-]|\\(?:[lc]?dots|to|[a-z]*arrow)(?![a-z])|\\(?![a-z]))*"
_BESIDE = re.compile(
    rf"{_SKIPPED}(?:[-+*/_<>!]|\^(?!\s*\{{?\s*\\circ)|=\s*[-\d]|\\(?:times|cdot|pm|cup)(?![a-z])|{_VALUE})"
)
_JOINED = re.compile(
    rf"[\s$)\]}}]*(?:[,;&/|]|{AND}|(?<![a-z])(?:to|then|answer|through)(?![a-z]))[\s$(\\\[]*(?:[A-Za-z]\w? ?= ?)?{_VALUE}"
)


def without_confidence(text: str) -> str:
    """The text before a closing remark such as "with a confidence level of 0.95"."""
    return _CONFIDENCE.sub("", text)


def unwrap(text: str) -> str:
    """Remove one layer: a full stop, markup, a lead-in, boxes, or delimiters with the prose around them."""
    text = _MARKUP.sub(r"\1\2", text).strip()
    if text.endswith(".") and not text.endswith(".."):
        return text[:-1]
    if quoted := _QUOTED.fullmatch(text):
        return quoted[1] or quoted[2]
    if (glossed := _GLOSSED.fullmatch(text)) and numeral(glossed[2]) == int(glossed[1][:20]):
        return glossed[1]
    if label := _LABEL.match(text):
        return text[label.end() :]
    if _NEGATIVE.match(text):
        return _NEGATIVE.sub("-", text, count=1)
    if stated := _IS_THE_ANSWER.search(text):
        return text[: stated.start()]
    return _from_sentence(text)


def closing_brace(text: str, start: int = 0) -> int:
    """Where the brace that opened before `start` closes; the end of `text` if it does not close."""
    depth = 1
    for brace in _BRACE.finditer(text, start):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.start()
    return len(text)


def _from_sentence(text: str) -> str:
    """Take the answer out of a sentence, a box or delimiters."""
    if subject := _subject(text):
        return text[len(subject) :]
    if number := _only_number(text):
        return number
    return _unbox(text) if _BOX.search(text) else _undelimit(text)


def _only_number(text: str) -> str:
    """The number in a sentence such as "The polygon has 15 sides", if it is the only one and no word changes it."""
    if _NO_SENTENCE.search(text) or not _WORDS.match(text) or CHANGED.search(text):
        return ""
    numbers = _PLAIN_NUMBER.findall(text)
    alone = len(numbers) == 1 and not re.search(r"\d", text.replace(numbers[0], "", 1))
    return numbers[0].strip() if alone and numbers[0].strip() != text else ""


def _subject(text: str) -> str:
    """The beginning of a sentence such as "The answer is 5", if it has one verb and expresses no doubt."""
    verbs = list(_IS.finditer(text)) if _SENTENCE.match(text) else []
    subject = text[: verbs[0].end()] if len(verbs) == 1 else ""
    turned = _FORMULA.search(subject) and not _FORMULA.search(text, len(subject))  # "5 is the answer"
    return "" if turned or DOUBT.search(subject) else subject


def _unbox(text: str) -> str:
    """The contents of the boxes; the text around them counts only if it changes them."""
    contents, around, end = [], [], 0
    while box := _BOX.search(text, end):
        around.append(text[end : box.start()])
        end = closing_brace(text, box.end())
        contents.append(text[box.end() : end])
        end += 1
    after = _ENVIRONMENT_END.sub("", _CLOSING.sub("", text[end:], count=1).rstrip(_ENDING)).rstrip(_ENDING)
    whole = " ".join([*map(" ".join, zip(around, contents, strict=True)), after]).replace(" _", "_")
    if len(set(contents)) == 1:  # repeated, not two values
        contents, around = contents[:1], around[-1:]
    if any(DENIED.search(gap) or (_PROSE.search(gap) and not LINK.search(gap)) for gap in around[1:]):
        return whole
    if _changed_before(around[0], contents):
        return whole
    if _changed_after(after, contents):
        return whole if len(contents) > 1 else f"{contents[0]} {after}".replace(" _", "_")
    percent = _PERCENT_NEXT.match(after)
    return ", ".join(contents) + (percent[0] if percent else "")


def _changed_before(before: str, contents: list[str]) -> bool:
    """Whether the words before a box deny it, or the box belongs to a formula or list that begins before it."""
    sentence = _SENTENCE_END.split(before)[-1]
    if (len(contents) == 1 and re.search(OR, sentence)) or DENIED.search(_CLAUSE.split(sentence)[-1]):
        return True
    breaks = list(_BREAK.finditer(before))
    beside = _LAYOUT.sub(" ", before[breaks[-1].end() :] if breaks else before)
    if _SCALED_BEFORE.search(before.rstrip(_DELIMITERS)):
        return True
    value = beside.strip(_DELIMITERS + ",;{}")
    return _MATTER.search(value) is not None and value not in (contents[0], "+")


def _changed_after(after: str, contents: list[str]) -> bool:
    """Whether the words after a box deny or change it, or offer another value."""
    text = _LAYOUT.sub(" ", after).lstrip("{} ")
    if _PERCENT_NEXT.match(text):
        return False
    first, *others = _SENTENCE_END.split(text)
    hedged = DENIED.search(first) if len(contents) > 1 else HEDGED.search(first)
    beside = any(pattern.match(first) for pattern in (_SCALED_AFTER, _BESIDE, _JOINED))
    return bool(hedged) or beside or any(map(HEDGED.match, others))


def _undelimit(text: str) -> str:
    """Drop the delimiters of formulas and, if that changes nothing, the prose around them."""
    outside = _GROUP.sub(" ", text)
    introduced = _INTRODUCED.fullmatch(text)
    if introduced and not DOUBT.search(outside):
        return text[introduced.start(1) :]
    if introduced or not _PROSE.search(outside) or CHANGED.search(outside) or re.search(r"\d", outside):
        return _GROUP.sub(r" \1\2\3\4 ", text).strip()
    groups = list(_GROUP.finditer(text))
    if not groups:
        return text
    percent = _PERCENT_NEXT.match(text, groups[-1].end())
    return ", ".join(next(filter(None, m.groups())) for m in groups) + (percent[0] if percent else "")
