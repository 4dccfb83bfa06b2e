"""Hostile responses: megabytes of tags or white space are read in linear time and little memory.

Nothing here is timed: a quadratic step over two million characters runs into the suite's time limit.
"""

import sys
import tracemalloc

import pytest

from calibsft.responses import Reason, parse, replace_confidence
from calibsft.responses.spans import confidence_start

SIZE = 2_000_000
TAGS = [f"<{slash}{name}>" for slash in ("", "/") for name in ("think", "answer", "confidence")]
UNITS = [
    *TAGS,
    "<answer></answer>",
    "</answer><answer>",
    "<answer><confidence>",
    "<confidence>0.50</confidence>",
    "<think></think>",
    "<",
    "</",
    "<answer",
    "</confidence",
    " ",
    "\n",
    "\u3000",
    "0",
    "😀",
    "\ud800",
    "\0",
]
# A wrong guess of the closed reasoning, and of an answer that is still open, lead through different code.
OPENINGS = [
    "",
    "<think>",
    "<think></think>",
    "<think></think><answer>",
    "</think><answer>4</answer><confidence>",
]


@pytest.mark.parametrize("opening", OPENINGS)
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.timeout(60)
def test_megabytes_of_one_unit_are_read(unit: str, opening: str) -> None:
    text = opening + unit * (SIZE // len(unit))
    parsed = parse(text)
    assert not parsed.ok
    assert parsed.reason in Reason
    assert confidence_start(text) is None or "<confidence>" in text


@pytest.mark.timeout(60)
def test_megabytes_of_white_space_between_the_elements_are_no_fault() -> None:
    gap = " \n" * (SIZE // 2)
    text = (
        f"{gap}<think>{gap}</think>{gap}<answer>4</answer>{gap}<confidence>{gap}0.50{gap}</confidence>{gap}"
    )
    parsed = parse(text)
    assert parsed.ok
    assert parsed.think == gap
    assert replace_confidence(text, parsed, "0.51") == text.replace("0.50", "0.51")
    start = confidence_start(text)
    assert start == text.index("</answer>") + len("</answer>")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("closing", ["", "</answer>"])
def test_an_unclosed_reasoning_costs_little_memory(closing: str) -> None:
    text = f"<answer>{'x' * SIZE}{closing}"
    tracemalloc.start()
    try:
        parsed = parse(text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert parsed.reason is Reason.MISSING_THINK_END
    assert parsed.answer == ("x" * SIZE if closing else None)
    assert peak < 4 * SIZE


def test_tags_nested_deeper_than_the_stack_are_read() -> None:
    depth = 10 * sys.getrecursionlimit()
    text = "".join(f"<{name}>" for name in ("think", "answer", "confidence") * depth)
    text += "".join(f"</{name}>" for name in ("confidence", "answer", "think") * depth)
    assert parse(text).reason is Reason.NESTED_TAG


@pytest.mark.parametrize(
    "value", ["9" * 10**6, "0." + "5" * 10**6, "1" + "0" * 10**6 + "/1", "__import__('os')", "1.00" * 10**5]
)
def test_a_confidence_is_matched_and_never_evaluated(value: str) -> None:
    for name in ("probability", "integer", "linguistic"):
        parsed = parse(f"<think></think><answer>4</answer><confidence>{value}</confidence>", name)
        assert (parsed.reason, parsed.value) == (Reason.BAD_CONFIDENCE, None)


def test_the_text_of_a_response_is_no_pattern() -> None:
    text = r"<think>(a+)+$ \1 [</think> <answer>(?P<x>.*)\g<0></answer> <confidence>0.50</confidence>"
    parsed = parse(text)
    assert (parsed.ok, parsed.answer) == (True, r"(?P<x>.*)\g<0>")
    assert replace_confidence(text, parsed, "1.00") == text.replace("0.50", "1.00")
