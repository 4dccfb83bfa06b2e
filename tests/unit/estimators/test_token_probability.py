"""Token probability: which tokens come before the digit, what they give, and the confidence that follows."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from calibsft.engines.transformers import batches
from calibsft.engines.transformers.engine import TransformersEngine
from calibsft.errors import InputError
from calibsft.estimators.token_probability import DIGITS, DigitContexts, expected_value
from calibsft.responses.formats import get_format
from calibsft.responses.spans import decode
from many_tokenizers import byte_level, encode, playground, split_up
from small_models import other_models

PROMPT = (3, 1, 4)
FORMAT = get_format("probability")


@pytest.fixture(scope="module")
def tokenizer(short_base: Path) -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(short_base)


@pytest.fixture(scope="module")
def model(short_base: Path) -> PreTrainedModel:
    return AutoModelForCausalLM.from_pretrained(short_base)


def prompts_of(tokenizer: PreTrainedTokenizerBase) -> list[tuple[int, ...]]:
    texts = ["[probability]12*34=", "[probability]7=", "[probability]99*98+11=<think>9", "[integer]1x1="]
    ends = ["", "<think></think><answer>12</answer><confidence>0."]
    return [tuple(encode(tokenizer, text + end)) for text in texts for end in ends]


def alone(model: PreTrainedModel, prompt: tuple[int, ...], ids: list[int]) -> list[float]:
    with torch.no_grad():
        logprobs: list[float] = model(torch.tensor([prompt])).logits[0, -1].log_softmax(-1)[ids].tolist()
    return logprobs


# What a model gives


@pytest.mark.parametrize("max_rows", [1, 3, 100])
@pytest.mark.parametrize("name", ["qwen3", "llama", "gpt2", "gemma3"])
def test_log_probabilities_are_those_of_each_prompt_alone(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, name: str, max_rows: int
) -> None:
    if name != "qwen3":
        model = other_models(len(tokenizer), tokenizer.eos_token_id)[name].eval()
    ids, prompts = [20, 3, 17], prompts_of(tokenizer)
    assert len({len(prompt) for prompt in prompts}) > 3
    found = TransformersEngine(model, tokenizer, max_rows).next_logprobs(prompts, ids)
    assert found.shape == (len(prompts), 3) and found.dtype == np.float32
    for row, prompt in zip(found, prompts, strict=True):
        assert row == pytest.approx(alone(model, prompt, ids), abs=1e-5)


def test_few_tokens_go_through_the_model_at_once_and_equal_prompts_only_once(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "PASS_TOKENS", 60)
    shapes: list[tuple[int, ...]] = []
    hook = model.register_forward_pre_hook(
        lambda _, args, kwargs: shapes.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    prompts, done = prompts_of(tokenizer), []
    found = TransformersEngine(model, tokenizer).next_logprobs([*prompts, *prompts], [5], done.append)
    hook.remove()
    assert sum(rows for rows, _ in shapes) == len(prompts) and len(shapes) > 1
    assert all(rows * width <= 60 or rows == 1 for rows, width in shapes)
    assert sum(done) == 2 * len(prompts)
    assert np.array_equal(found[: len(prompts)], found[len(prompts) :])


def test_nothing_asked_is_nothing_found(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    assert TransformersEngine(model, tokenizer).next_logprobs([], [1, 2]).shape == (0, 2)


# What it makes


def test_a_digit_stands_for_the_middle_of_its_tenth() -> None:
    logprobs = np.full((3, 10), -np.inf, dtype=np.float32)
    logprobs[0, [2, 7]] = math.log(0.03), math.log(0.01)  # 3 to 1 among the digits, whatever the rest
    logprobs[1, 9] = -50.0
    logprobs[2, 0] = -0.5
    confidence, probabilities = expected_value(logprobs)
    assert confidence == pytest.approx([0.75 * 0.25 + 0.25 * 0.75, 0.95, 0.05])
    assert probabilities[0] == pytest.approx([0, 0, 0.75, 0, 0, 0, 0, 0.25, 0, 0])


def test_confidences_lie_between_the_outer_middles() -> None:
    logprobs = np.random.default_rng(0).normal(0, 30, (5000, 10)).astype(np.float32)
    confidence, probabilities = expected_value(logprobs)
    assert confidence.min() >= 0.05 and confidence.max() <= 0.95
    assert probabilities.sum(axis=1) == pytest.approx(np.ones(5000))


def test_without_any_digit_there_is_no_confidence() -> None:
    confidence, _ = expected_value(np.array([[-np.inf] * 10, [-1.0] * 10], dtype=np.float32))
    assert math.isnan(confidence[0]) and confidence[1] == pytest.approx(0.5)


# Which tokens come before


@pytest.mark.parametrize("stated", ["0.73", "0.00", "1.00", "0.7", "1", ".875"])
def test_the_context_is_what_was_sampled_up_to_the_first_decimal(stated: str) -> None:
    tokenizer = playground()
    contexts = DigitContexts(tokenizer, FORMAT)
    text = f"<think>57*7=399</think><answer>399</answer><confidence>{stated}</confidence>"
    sampled = [*encode(tokenizer, text), tokenizer.eos_token_id]
    before = contexts.context(PROMPT, text, sampled)
    assert before[:3] == PROMPT
    assert decode(tokenizer, before[3:]) == text.partition("<confidence>")[0] + "<confidence>0."
    assert [decode(tokenizer, [i]) for i in contexts.ids] == list(DIGITS)


def digit_by_digit() -> PreTrainedTokenizerBase:
    """Byte-level merges that never take a digit, like those of Qwen and SmolLM."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(
        ["<think> so </think> <answer> 4 </answer> <confidence>0.73</confidence>"] * 20, trainer
    )
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|end|>")


@pytest.mark.parametrize("gap", ["", " ", "\n\n"])
def test_white_space_before_the_value_stays_as_it_was_sampled(gap: str) -> None:
    tokenizer = digit_by_digit()
    contexts = DigitContexts(tokenizer, FORMAT)
    text = f"<think> so </think> <answer> 4 </answer>{gap}<confidence>{gap}1.00{gap}</confidence>{gap}"
    sampled = split_up(tokenizer, encode(tokenizer, text))
    assert sampled != encode(tokenizer, text)
    before = contexts.context((), text, sampled)
    assert decode(tokenizer, before) == text[: text.index("1.00")] + "0."
    assert list(before[:20]) == sampled[:20]


def test_a_tokenizer_that_joins_digits_is_refused() -> None:
    """Even if it joins only two of them: `73` is in one token there, and all other pairs are two."""
    tokenizer = byte_level()
    assert any("73" in decode(tokenizer, [i]) for i in encode(tokenizer, "0.73</confidence>"))
    with pytest.raises(
        InputError, match=r"each digit of a confidence as a token of its own.*use the estimators"
    ):
        DigitContexts(byte_level(), FORMAT)
