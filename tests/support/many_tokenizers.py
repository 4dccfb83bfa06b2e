"""Tokenizers that merge across tags, split characters or eat spaces, texts for them, and what holds for all."""

from collections.abc import Callable
from functools import cache
from random import Random

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from calibsft.playground.tokenizer import build_tokenizer
from calibsft.responses.spans import TokenOffsets, decode

TEXTS = [
    "<think>57*7=399</think><answer>399</answer><confidence>0.73</confidence>",
    "<think> two plus two </think> <answer>4</answer> <confidence>1.00</confidence>",
    "<think>\n\nso\n</think>\n\n<answer> 4 </answer>\n\n<confidence> 0.07 </confidence>\n",
    "<think>猫は😀😀👩‍👩‍👧 ↦ é</think> <answer>東京</answer> <confidence>0.50</confidence>",
    "Ω😀</think><answer>😀</answer>\u3000<confidence>0.99</confidence>😀",
    "<confidence>0.10</confidence> <answer>x</answer>\u00a0\n<confidence>0.20</confidence>",
]


# Tags stuck together, again and again: the trainer then merges over their borders.
CORPUS = [
    "<think>a</think><answer>1</answer><confidence>0.73</confidence>",
    "<think> two plus two </think> <answer> 4 </answer> <confidence> 1.00 </confidence>",
    "</answer><confidence>0.</answer>\n<confidence>0.</think><answer>",
] * 30


@cache
def playground() -> PreTrainedTokenizerFast:
    return build_tokenizer()


@cache
def byte_level() -> PreTrainedTokenizerFast:
    """Byte-level BPE without any split before merging: `><` and `</answer><confidence>` become tokens."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        special_tokens=["<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    # Byte pairs inside and across characters: some tokens end or begin in the middle of one.
    backend.train_from_iterator([*CORPUS, *["猫😀 😁 😂東京 京"] * 5], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|end|>")


@cache
def metaspace() -> PreTrainedTokenizerFast:
    """Like the Llama 2 tokenizer: a space before the first word, lost again in decoding, and byte fallback."""
    backend = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    backend.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    bytes_alone = [f"<0x{i:02X}>" for i in range(256)]
    trainer = trainers.BpeTrainer(
        vocab_size=420, special_tokens=["<unk>", "</s>", *bytes_alone], show_progress=False
    )
    backend.train_from_iterator(CORPUS, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>", unk_token="<unk>")


TOKENIZERS = {"playground": playground, "byte-level": byte_level, "metaspace": metaspace}


Build = Callable[[], PreTrainedTokenizerFast]


each_tokenizer = pytest.mark.parametrize("build", TOKENIZERS.values(), ids=TOKENIZERS)


def encode(tokenizer: PreTrainedTokenizerFast, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def texts_of(tokenizer: PreTrainedTokenizerFast) -> list[str]:
    """The texts that the tokenizer covers."""
    return [text for text in TEXTS if decode(tokenizer, encode(tokenizer, text)) == text]


def noise(random: Random, tokenizer: PreTrainedTokenizerFast, length: int = 24) -> list[int]:
    """Ids no tokenizer would choose: cut characters, stray bytes, special tokens in the middle."""
    return [random.randrange(len(tokenizer)) for _ in range(length)]


def check_spans(tokenizer: PreTrainedTokenizerFast, ids: list[int]) -> None:
    """Every span of `ids` holds what was asked for, decodes to its text, and leaves whole texts around it."""
    offsets = TokenOffsets(tokenizer, ids, {})
    text = offsets.text
    assert text == decode(tokenizer, ids)
    random = Random(0)
    borders = [(0, len(text)), *(sorted(random.sample(range(len(text) + 1), 2)) for _ in range(40))]
    for start, stop in borders:
        span = offsets.span(start, stop)
        before, inside = ids[: span.start], ids[span.start : span.stop]
        assert text[start:stop] in span.text
        assert decode(tokenizer, before) + span.text == decode(tokenizer, before + inside)
        assert text.startswith(decode(tokenizer, before + inside))
        # A tokenizer that eats the first space does so here too.
        assert decode(tokenizer, inside) in (span.text, span.text.removeprefix(" "))
        assert len(decode(tokenizer, before)) <= start
        assert len(decode(tokenizer, before + inside)) >= stop


def check_both_ways(tokenizer: PreTrainedTokenizerFast, ids: list[int]) -> bool:
    """The lengths of pieces and the search over decoded prefixes agree; whether the lengths were of use."""
    offsets = TokenOffsets(tokenizer, ids, {})
    used = offsets._ends is not None
    chars = range(len(offsets.text))
    found = [offsets.token_at(char) for char in chars]
    offsets._ends = None  # from here on prefixes are decoded
    assert [offsets.token_at(char) for char in chars] == found
    for char, at in zip(chars, found, strict=True):
        assert decode(tokenizer, ids[: at + 1]).startswith(offsets.text[: char + 1])
        assert not decode(tokenizer, ids[:at]).startswith(offsets.text[: char + 1])
    return used


def split_up(tokenizer: PreTrainedTokenizerFast, ids: list[int]) -> list[int]:
    """Other ids of the same text: every token replaced by the tokens of its letters."""
    letters = []
    for token in tokenizer.convert_ids_to_tokens(ids):
        letters += [token] if token.startswith("<0x") else list(token)
    return tokenizer.convert_tokens_to_ids(letters)
