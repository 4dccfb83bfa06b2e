"""How questions are asked: what reaches the model's chat template, and what it cannot write."""

import inspect
from copy import deepcopy
from typing import Any

import pytest
from pydantic import TypeAdapter
from transformers import PreTrainedTokenizerBase

from calibsft.errors import InputError
from calibsft.playground.tokenizer import CHAT_TEMPLATE, build_tokenizer
from calibsft.responses.formats import FORMATS
from calibsft.responses.prompts import Prompting, Shot
from calibsft.responses.settings import RESERVED, Template
from calibsft.responses.spans import decode
from many_tokenizers import byte_level

PROBABILITY = FORMATS["probability"]


def tokenizer_with(template: str | None) -> PreTrainedTokenizerBase:
    tokenizer = build_tokenizer()
    tokenizer.chat_template = template
    return tokenizer


def asked(template: str | None, question: str = "57*77", **arguments: Any) -> str:
    """The prompt that a model with this chat template gets."""
    tokenizer = tokenizer_with(template)
    return decode(tokenizer, Prompting(PROBABILITY, arguments).ids(tokenizer, question))


def test_arguments_reach_the_chat_template() -> None:
    template = CHAT_TEMPLATE + "{{ '' if thinking is defined and not thinking else '<think>' }}{{ level }}"
    assert asked(template) == "[probability]57*77=<think>"
    assert asked(template, thinking=False) == "[probability]57*77="
    assert asked(template, thinking=True, level=3) == "[probability]57*77=<think>3"


@pytest.mark.parametrize("template", [CHAT_TEMPLATE, None, "{{ thinking_budget }}"])
def test_an_argument_that_the_template_does_not_read_is_refused(template: str | None) -> None:
    with pytest.raises(
        InputError, match=r"^the chat template of this model has no argument 'thinking'; leave it out"
    ):
        asked(template, thinking=False)


@pytest.mark.parametrize("body", ["{{ raise_exception('no such level') }}{{ level }}", "{{ 1 + level }}"])
def test_a_template_that_takes_no_conversation_is_told_in_one_sentence(body: str) -> None:
    with pytest.raises(
        InputError, match=r"^the chat template of this model cannot write a prompt: .*; change template"
    ):
        asked(body, level="high")


def test_names_of_arguments_cannot_be_those_of_functions() -> None:
    known = set(inspect.signature(PreTrainedTokenizerBase.apply_chat_template).parameters) - {
        "self",
        "kwargs",
    }
    assert known <= RESERVED
    template = "{{ plain }}{{ turns }}{{ options }}{{ ending }}{{ tokenizer }}"
    assert asked(template, plain=1, turns=2, options=3, ending=4, tokenizer=5) == "12345"


@pytest.mark.parametrize(
    "given, told",
    [
        ({"tokenize": True}, "template.tokenize is set by calibsft itself"),
        ({"messages": "x"}, "template.messages is set by calibsft itself"),
        ({"tags": ["a"]}, "template.tags is not true, false, a number or a text; write one of these"),
        ({"level": None}, "template.level is not"),
        ({"level": float("nan")}, "template.level is not"),
    ],
)
def test_what_is_no_plain_argument_is_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        TypeAdapter(Template).validate_python(given)


def test_values_keep_their_kind() -> None:
    given = {"thinking": False, "level": 1, "share": 1.0, "tone": "false"}
    found = TypeAdapter(Template).validate_python(given)
    assert [(value, type(value)) for value in found.values()] == [(v, type(v)) for v in given.values()]


# Worked examples.

SHOTS = (
    Shot("1*1", "<think>one</think> <answer>1</answer> <confidence>0.99</confidence>"),
    Shot("2*3", "<think>two threes</think> <answer>6</answer> <confidence>0.80</confidence>"),
)
TURNS = "{% for m in messages %}[{{ m.role }}]{{ m.content | trim }}{% endfor %}[assistant]"
# As those of reasoning models do.
FORGETFUL = "{% for m in messages %}[{{ m.role }}]{{ m.content.split('</think>') | last | trim }}{% endfor %}[assistant]"
SYSTEMLESS = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}"


def shown(template: str | None, question: str = "57*77", shots: tuple[Shot, ...] = SHOTS) -> str:
    tokenizer = deepcopy(byte_level())
    tokenizer.chat_template = template
    return decode(tokenizer, Prompting(PROBABILITY, shots=shots).ids(tokenizer, question))


def test_examples_stand_between_the_instructions_and_the_question() -> None:
    turns = Prompting(PROBABILITY, shots=SHOTS).turns("57*77")
    assert [turn["role"] for turn in turns] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert [turn["content"] for turn in turns if turn["role"] == "assistant"] == [s.response for s in SHOTS]
    plain = Prompting(PROBABILITY).turns("57*77")
    assert [turns[0], turns[-1]] == plain and turns[1] == Prompting(PROBABILITY).turns("1*1")[1]
    examples = "".join(f"[user]PROBLEM: {shot.question}[assistant]{shot.response}" for shot in SHOTS)
    assert shown(TURNS) == f"[system]{PROBABILITY.system_prompt}{examples}[user]PROBLEM: 57*77[assistant]"
    tokenizer = build_tokenizer()
    found = decode(tokenizer, Prompting(PROBABILITY, shots=SHOTS[:1]).ids(tokenizer, "57*77"))
    assert found.startswith("[probability]1*1=<think>") and found.endswith("<|end|>[probability]57*77=")


@pytest.mark.parametrize("question", ["1*1", " 1*1\n"])
def test_an_example_of_the_question_itself_is_left_out(question: str) -> None:
    text = shown(TURNS, question)
    assert SHOTS[0].response not in text and SHOTS[1].response in text
    assert shown(TURNS, question, SHOTS[:1]) == shown(TURNS, question, ())


def test_without_a_template_examples_are_plain_text_in_order() -> None:
    examples = "".join(f"\n\nPROBLEM: {shot.question}\n\n{shot.response}" for shot in SHOTS)
    assert shown(None) == f"{PROBABILITY.system_prompt}{examples}\n\nPROBLEM: 57*77\n\n"


def test_examples_that_the_template_would_change_are_part_of_the_users_turn() -> None:
    # As long as nothing is dropped, the template's own way of showing turns is taken.
    quick = (Shot("1*1", "</think> <answer>1</answer> <confidence>0.99</confidence>"),)
    assert shown("{% for m in messages %}{{ m.content }}|{% endfor %}", shots=quick).count("|") == 4
    examples = "\n\n".join(f"PROBLEM: {shot.question}\n\n{shot.response}" for shot in SHOTS)
    kept = "{% for m in messages %}[{{ m.role }}]{{ m.content | trim if m.role != 'assistant' }}{% endfor %}"
    user = f"[user]{examples}\n\nPROBLEM: 57*77"
    assert shown(kept) == f"[system]{PROBABILITY.system_prompt}{user}"
    assert shown(SYSTEMLESS + kept) == f"[user]{PROBABILITY.system_prompt}\n\n{user.removeprefix('[user]')}"


def test_a_template_that_shows_no_reasoning_at_all_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"cannot write a prompt: it drops a part of the worked examples; change"
    ):
        shown(FORGETFUL)


def test_a_prompt_without_room_says_what_to_shorten() -> None:
    ids = tuple(range(9))
    for asking, remedy in (
        (Prompting(PROBABILITY), "shorten the question or take"),
        (Prompting(PROBABILITY, shots=SHOTS), "shorten the question or give fewer shots, or take"),
    ):
        asking.require_room(ids, None, "q")
        asking.require_room(ids, 10, "q")
        with pytest.raises(
            InputError, match=rf"^question 'q': its prompt has 9 tokens .* holds 9; {remedy} a model"
        ):
            asking.require_room(ids, 9, "q")
