"""From rows to training ids: sampled ids stay, only the confidence value and what follows is encoded anew."""

import pytest
from transformers import PreTrainedTokenizerFast

from calibsft.errors import InputError
from calibsft.responses import parse
from calibsft.responses.spans import TokenOffsets, confidence_start, decode
from many_tokenizers import (
    Build,
    byte_level,
    each_tokenizer,
    encode,
    metaspace,
    playground,
    split_up,
    texts_of,
)
from training_examples import PROMPT, check, encoder, retargeted


def rows_of(tokenizer: PreTrainedTokenizerFast) -> list[str]:
    return [text for text in texts_of(tokenizer) if parse(text).ok]


@each_tokenizer
def test_without_sampled_ids_the_text_is_encoded(build: Build) -> None:
    tokenizer = build()
    assert rows_of(tokenizer)
    for text in rows_of(tokenizer):
        example = encoder(tokenizer).encode(PROMPT, text, None, correct=True)
        check(tokenizer, text, example)
        assert list(example.response[:-1]) == encode(tokenizer, text)
        assert example.correct is True


@each_tokenizer
@pytest.mark.parametrize("with_end", [False, True])
def test_sampled_ids_are_kept_up_to_the_value(build: Build, with_end: bool) -> None:
    tokenizer = build()
    for text in rows_of(tokenizer):
        sampled = encode(tokenizer, text)
        row = retargeted(text, "0.41")
        span = parse(text).value_span
        assert span is not None
        ids = [*sampled, tokenizer.eos_token_id] if with_end else sampled
        example = encoder(tokenizer).encode(PROMPT, row, ids, correct=False)
        check(tokenizer, row, example)
        kept = sum(len(decode(tokenizer, sampled[: i + 1])) <= span[0] for i in range(len(sampled)))
        assert list(example.response[:kept]) == sampled[:kept]
        assert kept > 0
        assert example.correct is False


@pytest.mark.parametrize("build", [byte_level, metaspace], ids=["byte-level", "metaspace"])
@pytest.mark.parametrize("value", ["0.41", "1.00"])
def test_ids_the_tokenizer_would_not_choose_are_kept_too(build: Build, value: str) -> None:
    tokenizer = build()
    for text in rows_of(tokenizer):
        sampled = split_up(tokenizer, encode(tokenizer, text))
        assert sampled != encode(tokenizer, text)
        assert decode(tokenizer, sampled) == text
        row = retargeted(text, value)
        example = encoder(tokenizer).encode(PROMPT, row, sampled, correct=True)
        check(tokenizer, row, example)
        before = row[: row.rindex(value)]
        kept = next(i for i in range(len(sampled)) if decode(tokenizer, sampled[:i]) == before)
        assert list(example.response[:kept]) == sampled[:kept]
        assert decode(tokenizer, example.response[kept:-1]).strip() == row[len(before) :].strip()


@each_tokenizer
@pytest.mark.parametrize(("name", "value"), [("integer", "7"), ("linguistic", "low")])
def test_a_value_of_another_format_leaves_reasoning_and_answer_as_sampled(
    build: Build, name: str, value: str
) -> None:
    tokenizer = build()
    for text in rows_of(tokenizer):
        row = retargeted(text, value)
        for sampled in (encode(tokenizer, text), split_up(tokenizer, encode(tokenizer, text))):
            if decode(tokenizer, sampled) != text or decode(tokenizer, encode(tokenizer, row)) != row:
                continue  # the tokenizer has no such tokens
            example = encoder(tokenizer, name).encode(PROMPT, row, sampled, correct=True)
            check(tokenizer, row, example)
            start = confidence_start(text)
            assert start is not None
            # A sampled token on the border belongs to the confidence; those before it are reasoning and answer.
            kept = TokenOffsets(tokenizer, sampled, {}).first_token(start)
            assert kept > 0 and list(example.response[:kept]) == sampled[:kept]


def test_a_token_that_holds_the_value_and_the_tag_is_encoded_anew_as_a_whole() -> None:
    tokenizer = byte_level()
    text = "<think>a</think><answer>1</answer><confidence>0.73</confidence>"
    sampled = encode(tokenizer, text)
    pieces = [decode(tokenizer, [i]) for i in sampled]
    merged = next(i for i, piece in enumerate(pieces) if "<confidence>0" in piece)
    row = retargeted(text, "1.00")
    example = encoder(tokenizer).encode(PROMPT, row, sampled, correct=True)
    check(tokenizer, row, example)
    assert list(example.response[:merged]) == sampled[:merged]
    assert decode(tokenizer, example.response[:-1]) == row


def test_sampled_bytes_that_make_no_character_are_kept() -> None:
    tokenizer = byte_level()
    broken = tokenizer.convert_tokens_to_ids(["ð", "Ł"])  # the first two bytes of an emoji
    sampled = [*broken, *encode(tokenizer, "</think><answer>1</answer><confidence>0.73</confidence>")]
    row = retargeted(decode(tokenizer, sampled), "0.41")
    assert row.startswith("\ufffd</think>")
    example = encoder(tokenizer).encode(PROMPT, row, sampled, correct=True)
    check(tokenizer, row, example)
    assert list(example.response[:2]) == broken


def test_white_space_split_over_tokens_belongs_to_the_confidence_as_a_whole() -> None:
    tokenizer = byte_level()
    text = "<think>a</think><answer>1</answer>\u3000<confidence>0.73</confidence>"
    example = encoder(tokenizer).encode(PROMPT, text, None, correct=True)
    check(tokenizer, text, example)
    ids = example.response[:-1]
    assert len(encode(tokenizer, "\u3000")) > 1
    assert decode(tokenizer, ids[: example.confidence_at]).endswith("</answer>")
    assert decode(tokenizer, ids[example.confidence_at :]) == "\u3000<confidence>0.73</confidence>"


@each_tokenizer
def test_ids_of_another_text_are_not_used(build: Build) -> None:
    tokenizer = build()
    text = rows_of(tokenizer)[0]
    chosen = encode(tokenizer, text)
    other = encode(tokenizer, text.replace("399", "398", 1))
    for sampled in ([], chosen[:3], chosen[:-5], chosen[:-6], other, chosen[1:], [tokenizer.eos_token_id]):
        example = encoder(tokenizer).encode(PROMPT, text, sampled, correct=True)
        check(tokenizer, text, example)
        assert list(example.response[:-1]) == chosen


def test_a_text_the_tokenizer_cannot_reproduce_is_refused() -> None:
    text = "<think>two</think><answer>2</answer><confidence>0.73</confidence>"
    for sampled in (None, [], encode(playground(), text)):
        with pytest.raises(InputError, match="does not reproduce a response: '<think>two"):
            encoder(playground()).encode(PROMPT, text, sampled, correct=True)


@pytest.mark.parametrize(
    "text",
    [
        "<answer>2</answer><confidence>0.73</confidence>",
        "<think></think><answer>2</answer>",
        "<think></think><answer>2</answer><confidence>7</confidence>",
        "<think></think><answer>2</answer><confidence>0.7</confidence>",
        "",
    ],
)
def test_a_malformed_response_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="not well formed"):
        encoder(playground()).encode(PROMPT, text, None, correct=True)


@pytest.mark.parametrize(("name", "old", "new"), [("integer", "7", "0"), ("linguistic", "high", "low")])
def test_every_format_is_encoded_on_its_own_grammar(name: str, old: str, new: str) -> None:
    tokenizer = playground()
    text = f"<think>1+1</think><answer>2</answer><confidence>{old}</confidence>"
    row = text.replace(old, new)
    example = encoder(tokenizer, name).encode(PROMPT, row, encode(tokenizer, text), correct=True)
    assert tokenizer.convert_ids_to_tokens(example.response[example.confidence_at :]) == [
        "<confidence>", new, "</confidence>", "<|end|>",
    ]  # fmt: skip


def test_one_encoder_serves_many_rows() -> None:
    tokenizer = byte_level()
    shared = encoder(tokenizer)
    for text in rows_of(tokenizer) * 2:
        alone = encoder(tokenizer).encode(PROMPT, text, encode(tokenizer, text), correct=True)
        assert shared.encode(PROMPT, text, encode(tokenizer, text), correct=True) == alone
