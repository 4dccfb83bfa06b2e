"""Reading responses: what is well formed, and the one reason for everything that is not."""

from fractions import Fraction

import pytest

from calibsft.errors import InputError
from calibsft.responses import Reason, get_format, parse, render, replace_confidence

T, A, C = "<think>r</think>", "<answer>4</answer>", "<confidence>0.73</confidence>"

WELL_FORMED = {
    "canonical": f"{T} {A} {C}",
    "no space between": f"{T}{A}{C}",
    "lines between": f"{T}\n\n{A}\r\n\t{C}",
    "white space around": f"\n {T} {A} {C} \n\n",
    "ideographic space between": f"{T}\u3000{A}\u3000{C}\u3000",
    "opened by the template": f"r</think> {A} {C}",
    "opened by the template, empty": f"</think>{A}{C}",
    "empty reasoning": f"<think></think> {A} {C}",
    "space around the value": f"{T} {A} <confidence> \t0.73\r\n</confidence>",
    "other tags are text": f"<think><b>a</b> <Answer> <answer > </ think> < confidence></think> {A} {C}",
    "halves of tags are text": f"<think><answer <think think> answer> </</think> {A} {C}",
    "comparison in the answer": f"{T} <answer>x<3, y>4</answer> {C}",
}

MALFORMED = [
    # truncated
    ("<think>r", False, "truncated"),
    ("", False, "truncated"),
    (f"{T} {A} {C}", False, "truncated"),
    (f"{T} {A} {C} {C}", False, "truncated"),
    (f"{T} <answer>4", True, "truncated"),
    (f"{T} <answer>", True, "truncated"),
    (f"{T} {A} <confidence>0.7", True, "truncated"),
    (f"{T} {A} <confidence>0.73</confidence", True, "truncated"),
    (f"r</think> {A} <confidence>", True, "truncated"),
    # empty_response
    ("", True, "empty_response"),
    (" \n\t ", True, "empty_response"),
    # missing_think_end
    ("4", True, "missing_think_end"),
    ("<think>", True, "missing_think_end"),
    ("<think>r", True, "missing_think_end"),
    (f"<think>r {A} {C}", True, "missing_think_end"),
    (f"r {A} {C}", True, "missing_think_end"),
    (f"{A} {C}", True, "missing_think_end"),
    (f"<think>r</think {A} {C}", True, "missing_think_end"),
    (f"<think>r</THINK> {A} {C}", True, "missing_think_end"),
    # nested_tag
    (f"<think>r {A}</think> {A} {C}", True, "nested_tag"),
    (f"<think>r {A} {C}</think>", True, "nested_tag"),
    (f"<think>r {C}</think> {A} {C}", True, "nested_tag"),
    (f"r {A} s</think> {A} {C}", True, "nested_tag"),
    (f"<think><think>r</think></think> {A} {C}", True, "nested_tag"),
    (f"<think>r</answer></think> {A} {C}", True, "nested_tag"),
    (f"<think>write <answer> then</think> {A} {C}", True, "nested_tag"),
    (f"{T} <answer>4 {C}</answer>", True, "nested_tag"),
    (f"{T} <answer>4 {C}", True, "nested_tag"),
    (f"{T} <answer><answer>4</answer></answer> {C}", True, "nested_tag"),
    (f"{T} <answer>4</think></answer> {C}", True, "nested_tag"),
    (f"{T} {A} <confidence><confidence>0.73</confidence></confidence>", True, "nested_tag"),
    (f"{A} {T} {C}", True, "nested_tag"),  # all before </think> is reasoning
    # duplicate_tag
    (f"{T} {A} {A} {C}", True, "duplicate_tag"),
    (f"{T} {A} {C} {A} {C}", True, "duplicate_tag"),
    (f"{T} {A} {C} {C}", True, "duplicate_tag"),
    (f"{T} {A} {C} <confidence>", True, "duplicate_tag"),
    (f"{T} {A} <answer>5", True, "duplicate_tag"),
    (f"{T} {T} {A} {C}", True, "duplicate_tag"),
    (f"{T} {A} {C} {T}", True, "duplicate_tag"),
    (f"{T}</think> {A} {C}", True, "duplicate_tag"),
    (f"{T} {A}</answer> {C}", True, "duplicate_tag"),
    (f"{T} {A} {C}</confidence>", True, "duplicate_tag"),
    # missing_answer
    (T, True, "missing_answer"),
    ("r</think>", True, "missing_answer"),
    (f"{T} 4", True, "missing_answer"),
    (f"{T} {C}", True, "missing_answer"),
    (f"{T} 4</answer> {C}", True, "missing_answer"),
    (f"{T} \\boxed{{4}} {C}", True, "missing_answer"),
    # missing_confidence
    (f"{T} {A}", True, "missing_confidence"),
    (f"{T} {A} 0.73", True, "missing_confidence"),
    (f"{T} {A} 0.73</confidence>", True, "missing_confidence"),
    (f"{T} {A} <confidence 0.73", True, "missing_confidence"),
    # wrong_order
    (f"{T} {C} {A}", True, "wrong_order"),
    (f"r</think>{C}{A}", True, "wrong_order"),
    # stray_text
    (f"Sure! {T} {A} {C}", True, "stray_text"),
    (f"{T} so {A} {C}", True, "stray_text"),
    (f"{T} {A} so {C}", True, "stray_text"),
    (f"{T} {A}. {C}", True, "stray_text"),
    (f"{T} {A}\u200b{C}", True, "stray_text"),
    # trailing_text
    (f"{T} {A} {C}.", True, "trailing_text"),
    (f"{T} {A} {C}\n\nDone", True, "trailing_text"),
    (f"{T} {A} {C}<|endoftext|>", True, "trailing_text"),
    (f"{T} {A} {C}<", True, "trailing_text"),
    (f"{T} {A} {C}\0", True, "trailing_text"),
    # empty_answer
    (f"{T} <answer></answer> {C}", True, "empty_answer"),
    (f"{T} <answer> \n </answer> {C}", True, "empty_answer"),
    (f"{T} <answer></answer> <confidence>?</confidence>", True, "empty_answer"),
    # bad_confidence
    *(
        (f"{T} {A} <confidence>{value}</confidence>", True, "bad_confidence")
        for value in ("", " ", "0.5", "1.01", ".50", "nan", "95%", "high", "7", "٠.٥٠", "0.50 0.60", "0. 50", "\u00a00.50", "0.50\f")
    ),
]  # fmt: skip


@pytest.mark.parametrize("text", WELL_FORMED.values(), ids=WELL_FORMED)
def test_well_formed_responses_are_accepted_and_their_confidence_found(text: str) -> None:
    parsed = parse(text)
    assert (parsed.ok, parsed.reason) == (True, Reason.OK)
    assert parsed.value == Fraction(73, 100)
    assert parsed.confidence == 0.73
    assert parsed.value_span is not None
    assert text[slice(*parsed.value_span)] == "0.73"


@pytest.mark.parametrize(("text", "finished", "reason"), MALFORMED)
def test_every_other_response_has_its_reason(text: str, finished: bool, reason: str) -> None:
    parsed = parse(text, finished=finished)
    assert parsed.reason == reason
    assert not parsed.ok
    assert (parsed.value_span is None) == (parsed.actionable is None)


def test_the_table_covers_the_whole_vocabulary() -> None:
    assert {reason for _, _, reason in MALFORMED} == set(Reason) - {Reason.OK}


@pytest.mark.parametrize("opening", ["<think>", " \n<think>", ""])
def test_think_and_answer_are_returned_byte_for_byte(opening: str) -> None:
    think, answer = "\r\n a\u00a0\u200b👩‍👩‍👧 e\u0301 \0<b> ", "\n \\frac{1}{2}\u3000\ufeff\r "
    parsed = parse(f"{opening}{think}</think>\n<answer>{answer}</answer>\n{C}")
    assert parsed.ok
    assert (parsed.think, parsed.answer) == (think, answer)


def test_reasoning_the_template_opened_starts_at_the_first_character() -> None:
    assert parse(f"  r\n</think>{A}{C}").think == "  r\n"


@pytest.mark.parametrize(
    ("text", "think", "answer", "value"),
    [
        (f"{T} {A} {C}!", "r", "4", Fraction(73, 100)),
        (f"{T} {C} {A}", "r", "4", Fraction(73, 100)),
        (f"{T} {A} {C} <answer>5</answer> <confidence>0.10</confidence>", "r", "5", Fraction(1, 10)),
        (f"<think>r {A} {C}", None, "4", Fraction(73, 100)),
        (f"r <answer>3</answer> {A}</answer> s {C} {C}</confidence>", None, "4", Fraction(73, 100)),
        ("</answer> <answer>4", None, None, None),
        ("<answer>3</answer> <answer>4", None, "3", None),
        (f"{T} {A} <confidence>7</confidence>", "r", "4", None),
        (f"{T} 4", "r", None, None),
        ("4", None, None, None),
        ("", None, None, None),
    ],
)
def test_a_malformed_response_still_tells_what_can_be_read(
    text: str, think: str | None, answer: str | None, value: Fraction | None
) -> None:
    parsed = parse(text)
    assert not parsed.ok
    assert (parsed.think, parsed.answer, parsed.value) == (think, answer, value)
    assert parsed.confidence == (None if value is None else float(value))


def test_a_response_cut_at_its_limit_still_tells_what_it_said() -> None:
    parsed = parse(f"{T} {A} {C}", finished=False)
    assert (parsed.answer, parsed.value) == ("4", Fraction(73, 100))


@pytest.mark.parametrize(
    ("name", "written", "value"), [("integer", "7", Fraction(7, 9)), ("linguistic", "high", Fraction(3, 4))]
)
def test_the_confidence_is_read_in_the_format_asked_for(name: str, written: str, value: Fraction) -> None:
    text = render("r", "4", written)
    assert parse(text, name).value == value
    assert parse(text, get_format(name)) == parse(text, name)
    assert parse(text).reason == Reason.BAD_CONFIDENCE
    assert parse(render("r", "4", "0.73"), name).reason == Reason.BAD_CONFIDENCE


def test_an_unknown_format_name_is_refused() -> None:
    with pytest.raises(InputError, match="did you mean 'probability'"):
        parse("", "probabilty")


def test_render_writes_the_contract() -> None:
    assert render("r", "4", "0.73") == "<think>r</think> <answer>4</answer> <confidence>0.73</confidence>"


def test_replacing_the_confidence_changes_only_the_characters_of_the_value() -> None:
    text = "\n a 0.73 \r\n</think>\t<answer> 0.73 </answer>\n\n<confidence> \t0.73\n </confidence> \n"
    expected = "\n a 0.73 \r\n</think>\t<answer> 0.73 </answer>\n\n<confidence> \t1.00\n </confidence> \n"
    assert replace_confidence(text, parse(text), "1.00") == expected


@pytest.mark.parametrize(("name", "old", "new"), [("linguistic", "high", "low"), ("integer", "0", "9")])
def test_values_of_every_format_are_replaced(name: str, old: str, new: str) -> None:
    text = render(old, old, f" {old} ")
    assert replace_confidence(text, parse(text, name), new) == render(old, old, f" {new} ")


@pytest.mark.parametrize("text", [f"{T} {A} {C}.", f"{T} {A}", f"{T} {A} <confidence>7</confidence>", ""])
def test_a_malformed_response_has_no_confidence_to_replace(text: str) -> None:
    with pytest.raises(ValueError, match="layout"):
        replace_confidence(text, parse(text), "0.10")


@pytest.mark.parametrize("written", ["0.9", ".9", "0.90", " 0.900\n", "0.9000000000000000"])
def test_how_a_decimal_is_written_does_not_change_what_is_stated(written: str) -> None:
    parsed = parse(render("r", "4", written))
    assert (parsed.value, parsed.actionable) == (Fraction(9, 10), Fraction(9, 10))
    assert parsed.ok == (written == "0.90")
    assert parsed.reason == (Reason.OK if parsed.ok else Reason.BAD_CONFIDENCE)
    assert parsed.value_span is not None
    assert replace_confidence(render("r", "4", written), parsed, "0.50") == render(
        "r", "4", written.replace(written.strip(), "0.50")
    )


@pytest.mark.parametrize(("text", "finished", "reason"), MALFORMED)
def test_a_malformed_response_is_confident_only_if_nothing_but_its_decimal_is_amiss(
    text: str, finished: bool, reason: str
) -> None:
    parsed = parse(text, finished=finished)
    assert parsed.actionable == (parsed.value if reason == "bad_confidence" else None)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (f"{T} {A} <confidence>0. <confidence>0.1</confidence></confidence>", Fraction(1, 10)),
        (f"{T} <answer>4 <confidence>0.9</confidence></answer>", Fraction(9, 10)),
        (f"{T} {A} {C} <confidence>sure</confidence>", None),
        (f"{T} {A} {C} <confidence>0.9", Fraction(73, 100)),
        (f"{T} {A} 0.9</confidence>", None),
    ],
)
def test_scores_read_the_last_confidence_wherever_it_stands(text: str, value: Fraction | None) -> None:
    assert (parse(text).value, parse(text).actionable) == (value, None)
