"""Read a response: the one parser that data, rewards, evaluation and decisions share.

A well-formed response is `<think>R</think> <answer>A</answer> <confidence>C</confidence>`: closed reasoning (the chat
template may have opened it), exactly one answer, exactly one confidence after it, then only white space, and C in the
format's own grammar, with or without white space around it. Every other response is malformed, for one `Reason`. Training
data and rewards take only well-formed responses.

Scores are less strict: they read the last `<confidence>…</confidence>` anywhere, and in it any plain decimal
(`Format.stated`). Without one, the response is unreadable. Malformed and unreadable are different: "0.9" is malformed and
readable. The rule of decisions is between the two (`Parsed.actionable`). Does not grade.
"""

import re
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

from calibsft.responses.formats import Format, get_format


class Reason(StrEnum):
    """Why a response is malformed, or `ok`: the first reason that applies, in this order.

    One exception: for a text that ends inside its answer or confidence, `duplicate_tag` comes before `truncated`.
    """

    OK = "ok"
    TRUNCATED = "truncated"  # generation hit its limit, or the text ends inside an element
    EMPTY_RESPONSE = "empty_response"
    MISSING_THINK_END = "missing_think_end"
    NESTED_TAG = "nested_tag"  # a tag inside another element
    DUPLICATE_TAG = "duplicate_tag"  # a second element, or a second closing tag
    MISSING_ANSWER = "missing_answer"
    MISSING_CONFIDENCE = "missing_confidence"
    WRONG_ORDER = "wrong_order"  # the confidence stands before the answer
    STRAY_TEXT = "stray_text"  # text before the reasoning or between the elements
    TRAILING_TEXT = "trailing_text"
    EMPTY_ANSWER = "empty_answer"
    BAD_CONFIDENCE = "bad_confidence"

    @property
    def layout_holds(self) -> bool:
        """Whether everything is well formed, except perhaps the text of the confidence."""
        return self in (Reason.OK, Reason.BAD_CONFIDENCE)


@dataclass(frozen=True, slots=True)
class Parsed:
    """The contents of a response.

    Attributes
    ----------
    ok, reason
        Whether the response is well formed, and why not.
    think, answer
        The text inside the elements exactly as written, None if there is no such element.
    value
        The stated confidence as scores read it, an exact rational in [0, 1]; None if it is unreadable.
    value_span
        Start and end of the confidence's characters in the text, None if `actionable` is None.
    """

    ok: bool
    reason: Reason
    think: str | None
    answer: str | None
    value: Fraction | None
    value_span: tuple[int, int] | None = None

    @property
    def confidence(self) -> float | None:
        """The stated confidence as a float."""
        return None if self.value is None else float(self.value)

    @property
    def actionable(self) -> Fraction | None:
        """The confidence that a decision may act on: the stated one, None if the layout around it is malformed."""
        return self.value if self.reason.layout_holds else None


@dataclass(frozen=True, slots=True)
class _Element:
    name: str
    start: int  # of the opening tag
    inner: int  # first character of the content
    end: int  # first character of the closing tag
    stop: int  # first character after the closing tag


@dataclass(slots=True)
class _Scan:
    elements: list[_Element] = field(default_factory=list)
    open_tag: str | None = "think"
    nested: bool = False
    preamble: bool = False
    unopened: list[str] = field(default_factory=list)  # names of closing tags that close nothing


_TAG = re.compile(r"<(/?)(think|answer|confidence)>")
_LAYOUT_SPACE = " \t\r\n"


def parse(text: str, format: str | Format = "probability", *, finished: bool = True) -> Parsed:
    """Parse one response.

    Parameters
    ----------
    text
        What the model wrote, without the end-of-sequence token.
    format
        The confidence format or its name.
    finished
        False if generation stopped at its length limit; the response is then `truncated`.
    """
    confidence_format = get_format(format) if isinstance(format, str) else format
    scan = _scan(text)
    contents = {element.name: _content(text, element) for element in scan.elements}  # of each name the last
    confidence = _last_pair(text, "confidence")
    written = stated_text(text) or ""
    value = confidence_format.stated(written)
    reason = _reason(text, scan, confidence_format.read(written), finished)
    replaceable = value is not None and reason.layout_holds
    return Parsed(
        ok=reason is Reason.OK,
        reason=reason,
        think=contents.get("think"),
        answer=contents.get("answer"),
        value=value,
        value_span=_value_span(text, confidence) if confidence and replaceable else None,
    )


def stated_text(text: str) -> str | None:
    """What stands in the last `<confidence>…</confidence>`, which scores read; None without one."""
    confidence = _last_pair(text, "confidence")
    return _content(text, confidence).strip(_LAYOUT_SPACE) if confidence else None


def replace_confidence(text: str, parsed: Parsed, rendered: str) -> str:
    """`text` with its confidence value replaced; everything else stays the same."""
    if parsed.value_span is None:
        raise ValueError("only a response whose layout holds has a confidence to replace")
    start, stop = parsed.value_span
    return text[:start] + rendered + text[stop:]


def restate(text: str, rendered: str) -> str:
    """`text`, a well-formed response, with its confidence value replaced, without parsing it again."""
    confidence = _last_pair(text, "confidence")
    if confidence is None:
        raise ValueError("only a well-formed response has a confidence to replace")
    start, stop = _value_span(text, confidence)
    return text[:start] + rendered + text[stop:]


def render(think: str, answer: str, confidence: str) -> str:
    """The canonical text of a response."""
    return f"<think>{think}</think> <answer>{answer}</answer> <confidence>{confidence}</confidence>"


def _scan(text: str) -> _Scan:
    """Find the elements. If no tag opens the reasoning, it begins at the start of the text."""
    scan = _Scan()
    opened_at = inner_at = 0
    think_may_open = True
    for tag in _TAG.finditer(text):
        closes, name = tag[1] == "/", tag[2]
        if closes and name == scan.open_tag:
            scan.elements.append(_Element(name, opened_at, inner_at, tag.start(), tag.end()))
            scan.open_tag = None
        elif closes:
            scan.nested |= scan.open_tag is not None
            scan.unopened.append(name)
        elif name == "think" and think_may_open:
            scan.preamble = bool(text[: tag.start()].strip())
            opened_at, inner_at = tag.start(), tag.end()
        elif scan.open_tag is not None:
            scan.nested = True
        else:
            scan.open_tag, opened_at, inner_at = name, tag.start(), tag.end()
        think_may_open = False
    # Without `</think>` everything is inside the reasoning; the last answer is read nevertheless.
    if not scan.elements and (answer := _last_pair(text, "answer")):
        scan.elements.append(answer)
    return scan


def _last_pair(text: str, name: str) -> _Element | None:
    """The last element `name` that is closed, whatever is around it."""
    opening, closing = f"<{name}>", f"</{name}>"
    # Plain searches: a pattern for "the last pair" needs 75 bytes of memory per character.
    start = text.rfind(opening, 0, max(text.rfind(closing), 0))
    if start < 0:
        return None
    inner = start + len(opening)
    end = text.find(closing, inner)
    return _Element(name, start, inner, end, end + len(closing))


def _content(text: str, element: _Element) -> str:
    return text[element.inner : element.end]


def _value_span(text: str, element: _Element) -> tuple[int, int]:
    content = _content(text, element)
    start = element.inner + len(content) - len(content.lstrip(_LAYOUT_SPACE))
    return start, element.inner + len(content.rstrip(_LAYOUT_SPACE))


def _reason(text: str, scan: _Scan, strict_value: Fraction | None, finished: bool) -> Reason:
    if not finished:
        return Reason.TRUNCATED
    if not text.strip():
        return Reason.EMPTY_RESPONSE
    names = [element.name for element in scan.elements]
    if "think" not in names:
        return Reason.MISSING_THINK_END
    if scan.nested:
        return Reason.NESTED_TAG
    if len(set(names)) < len(names) or scan.open_tag in names or set(scan.unopened) & set(names):
        return Reason.DUPLICATE_TAG
    if scan.open_tag is not None:
        return Reason.TRUNCATED
    return _layout_reason(text, scan, names, strict_value)


def _layout_reason(text: str, scan: _Scan, names: list[str], strict_value: Fraction | None) -> Reason:
    """The reason for a text whose elements are all closed, not nested and not repeated."""
    if "answer" not in names:
        return Reason.MISSING_ANSWER
    if "confidence" not in names:
        return Reason.MISSING_CONFIDENCE
    if names != ["think", "answer", "confidence"]:
        return Reason.WRONG_ORDER
    think, answer, confidence = scan.elements
    between = text[think.stop : answer.start] + text[answer.stop : confidence.start]
    if scan.preamble or between.strip():
        return Reason.STRAY_TEXT
    if text[confidence.stop :].strip():
        return Reason.TRAILING_TEXT
    if not _content(text, answer).strip():
        return Reason.EMPTY_ANSWER
    return Reason.OK if strict_value is not None else Reason.BAD_CONFIDENCE
