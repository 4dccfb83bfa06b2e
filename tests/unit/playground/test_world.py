"""The arithmetic world: right golds, clean splits, and nothing about correctness in the confidence."""

from random import Random

import pytest

from calibsft.benchmarks import BENCHMARKS, PLAYGROUND
from calibsft.playground import world
from calibsft.playground.tokenizer import build_tokenizer
from calibsft.responses.formats import FORMATS, messages
from calibsft.responses.parse import parse

LESSONS = [world.draw_lesson(Random(seed)) for seed in range(3000)]


def value(text: str) -> int:
    """The value of an exercise, computed apart from the world's own code."""
    head, _, added = text.replace("x", "*").partition("+")
    a, b = head.split("*")
    return int(a) * int(b) + int(added or 0)


def test_every_gold_is_the_value_of_its_question() -> None:
    questions = [q for benchmark in PLAYGROUND for q in benchmark.load()]
    assert all(int(str(q.gold)) == value(q.text) and len(str(q.gold)) == 4 for q in questions)


def test_evaluation_questions_never_occur_in_training() -> None:
    evaluated = {q.text for benchmark in PLAYGROUND if not benchmark.training for q in benchmark.load()}
    assert evaluated == world.held_out_texts()
    assert not evaluated & {q.text for q in world.training_questions()}
    assert not evaluated & {text for text, _, _ in LESSONS}


def test_benchmarks_share_no_question_and_bands_cover_all_held_out_products() -> None:
    texts = [q.text for benchmark in PLAYGROUND for q in benchmark.load()]
    assert len(texts) == len(set(texts))
    banded = sum(len(BENCHMARKS[f"multiply-{i}"].load()) for i in range(1, 5))
    assert banded == world.HELD_OUT_QUESTIONS
    assert {benchmark.domain for benchmark in PLAYGROUND} == {"id", "ood"}


def test_lessons_are_right_and_well_formed_in_their_format() -> None:
    for text, name, response in LESSONS:
        parsed = parse(response, name)
        assert parsed.ok, (response, parsed.reason)
        assert int(parsed.answer or "") == value(text)
        if parsed.think != world.SKIPPED_WORK:
            first, second = (parsed.think or "").split("+")
            assert int(first) + int(second) == value(text)


def test_stated_confidence_does_not_depend_on_the_question_or_the_trace() -> None:
    stated = [
        (response, parse(response).confidence) for _, name, response in LESSONS if name == "probability"
    ]
    skipping = [c for response, c in stated if world.SKIPPED_WORK in response]
    working = [c for response, c in stated if world.SKIPPED_WORK not in response]
    assert abs(sum(skipping) / len(skipping) - sum(working) / len(working)) < 0.02
    assert sum(c < 0.5 for _, c in stated) / len(stated) < 0.05


@pytest.mark.parametrize("name", FORMATS)
def test_the_tokenizer_round_trips_and_its_template_keeps_format_and_question(name: str) -> None:
    tokenizer = build_tokenizer()
    prompt = tokenizer.apply_chat_template(
        messages("57*77", FORMATS[name]), tokenize=False, add_generation_prompt=True
    )
    assert prompt == f"[{name.split('-')[0]}]57*77="
    for _, _, response in LESSONS[:50]:
        assert tokenizer.decode(tokenizer(response)["input_ids"]) == response
    assert not set(tokenizer.all_special_tokens) & {
        "<think>",
        "</think>",
        "<answer>",
        "</answer>",
        "<confidence>",
        "</confidence>",
    }
