"""What must hold for every response text: reading never fails, and writing, reading and replacing agree."""

import re
from decimal import Decimal
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from calibsft.responses import FORMATS, Format, Reason, parse, render, replace_confidence
from calibsft.responses.parse import restate

TAG = re.compile(r"</?(think|answer|confidence)>")
TAGS = [f"<{slash}{name}>" for slash in ("", "/") for name in ("think", "answer", "confidence")]

FORMAT = st.sampled_from(list(FORMATS.values()))
VALUE = st.fractions(0, 1, max_denominator=1000)
SPACE = st.text(" \t\r\n", max_size=4)
# Pieces of tags, so that near misses occur, but never a whole one.
UNTAGGED = st.one_of(
    st.text(max_size=40),
    st.lists(
        st.sampled_from(["<", ">", "/", "think", "answer>", "<confidence", "0.50", " ", "猫", "\n"])
    ).map("".join),
).filter(lambda text: not TAG.search(text))
ANSWER = UNTAGGED.filter(lambda text: text.strip())
PIECES = [*TAGS, "0.50", "7", "low", " ", "\n", "x", "<", "\ud800"]
CANONICAL = [
    "<think>",
    "x",
    "</think>",
    " ",
    "<answer>",
    "4",
    "</answer>",
    " ",
    "<confidence>",
    "0.50",
    "</confidence>",
    "",
]


def edited(edits: list[tuple[int, int, str]]) -> str:
    """The canonical response after cutting `count` pieces at a place and putting one there, for each edit."""
    pieces = CANONICAL.copy()
    for place, count, piece in edits:
        pieces[place : place + count] = [piece]
    return "".join(pieces)


EDIT = st.tuples(st.integers(0, 12), st.integers(0, 1), st.sampled_from(["", *PIECES]))
ANYTHING = st.one_of(
    st.text(), st.lists(st.sampled_from(PIECES)).map("".join), st.lists(EDIT, max_size=3).map(edited)
)


@given(UNTAGGED, ANSWER, VALUE, FORMAT)
def test_what_is_rendered_is_read_back_and_renders_the_same(
    think: str, answer: str, value: Fraction, confidence_format: Format
) -> None:
    text = render(think, answer, confidence_format.render(value))
    parsed = parse(text, confidence_format)
    assert parsed.reason is Reason.OK
    assert (parsed.think, parsed.answer) == (think, answer)
    assert parsed.value is not None
    assert render(parsed.think, parsed.answer, confidence_format.render(parsed.value)) == text


@given(UNTAGGED, ANSWER, VALUE, VALUE, FORMAT, st.lists(SPACE, min_size=6, max_size=6), st.booleans())
def test_replacing_the_confidence_gives_the_new_value_and_the_same_think_and_answer(
    think: str, answer: str, old: Fraction, new: Fraction, written: Format, gaps: list[str], opened: bool
) -> None:
    a, b, c, d, e, f = gaps
    opening = f"{a}<think>" if opened else ""
    before = f"{opening}{think}</think>{b}<answer>{answer}</answer>{c}<confidence>{d}"
    text = f"{before}{written.render(old)}{e}</confidence>{f}"
    replaced = replace_confidence(text, parse(text, written), written.render(new))
    assert restate(text, written.render(new)) == replaced
    assert replaced == f"{before}{written.render(new)}{e}</confidence>{f}"
    parsed = parse(replaced, written)
    assert parsed.reason is Reason.OK
    assert parsed.value == written.read(written.render(new))
    assert (parsed.think, parsed.answer) == (think, answer)


@given(ANYTHING, FORMAT, st.booleans())
def test_any_text_is_read_without_an_error(text: str, confidence_format: Format, finished: bool) -> None:
    parsed = parse(text, confidence_format, finished=finished)
    assert parsed.ok == (parsed.reason is Reason.OK)
    assert (parsed.actionable is None) == (parsed.value_span is None)
    assert parsed.actionable in (None, parsed.value)
    if parsed.value_span is not None:
        assert confidence_format.stated(text[slice(*parsed.value_span)]) == parsed.value
    assert parsed.reason in Reason
    assert parsed.value is None or 0 <= parsed.value <= 1
    for part in (parsed.think, parsed.answer):
        assert part is None or part in text
    if parsed.ok:
        assert finished and parsed.actionable is not None
        assert parsed.think is not None
        assert parsed.answer is not None
        assert sorted(TAG.findall(text)) in (
            ["answer"] * 2 + ["confidence"] * 2 + ["think"] * 2,
            ["answer"] * 2 + ["confidence"] * 2 + ["think"],
        )


@given(ANYTHING)
def test_a_text_is_well_formed_exactly_when_it_has_the_contracts_shape(text: str) -> None:
    body = r"(?:(?!</?(?:think|answer|confidence)>)[\s\S])*"
    shape = rf"(?:\s*<think>)?{body}</think>\s*<answer>(?=\s*(?!</answer>)\S){body}</answer>\s*<confidence>[ \t\r\n]*(?:0\.[0-9][0-9]|1\.00)[ \t\r\n]*</confidence>\s*"
    assert parse(text).ok == bool(re.fullmatch(shape, text))


@given(st.fractions(0, 1), FORMAT)
def test_rendering_goes_to_a_grid_point_and_stays_there(value: Fraction, confidence_format: Format) -> None:
    text = confidence_format.render(value)
    on_grid = confidence_format.read(text)
    assert on_grid is not None
    assert confidence_format.render(on_grid) == text
    step = {"probability": 100, "probability-0.05": 20, "integer": 9}.get(confidence_format.name)
    assert step is None or abs(on_grid - value) <= Fraction(1, 2 * step)


@given(st.fractions(0, 1), st.fractions(0, 1), FORMAT)
def test_a_larger_value_is_never_written_as_a_smaller_one(a: Fraction, b: Fraction, written: Format) -> None:
    low, high = (written.read(written.render(value)) for value in sorted((a, b)))
    assert low is not None
    assert high is not None
    assert low <= high


@given(st.one_of(st.text("0159.٠٥０５_+-e%\n \u00a0", max_size=5), st.text(max_size=5)), FORMAT)
def test_only_the_bare_grammar_is_ever_read(text: str, confidence_format: Format) -> None:
    grammar = {"integer": "[0-9]", "linguistic": "low|medium|high"}.get(
        confidence_format.name, r"0\.[0-9]{2}|1\.00"
    )
    assert (confidence_format.read(text) is not None) == bool(re.fullmatch(grammar, text))


@given(st.one_of(st.text("01259.٠٥０５_+-e%,\n \u00a0", max_size=6), st.text(max_size=5)), FORMAT)
def test_scores_read_plain_decimals_as_what_they_are_and_nothing_else(text: str, written: Format) -> None:
    found, strict = written.stated(text), written.read(text)
    assert strict is None or found == strict
    if written.decimal:
        plain = text.isascii() and re.fullmatch(r"[01]?\.?[0-9]*", text) and re.search("[0-9]", text)
        shaped = plain and (text.count(".") or len(text) == 1)
        assert found == (Fraction(Decimal(text)) if shaped and Decimal(text) <= 1 else None)
    else:
        assert found == strict
