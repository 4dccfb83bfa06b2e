"""Cutting responses into tokens, for tokenizers that merge across tags, split characters or eat spaces."""

from random import Random

import pytest
from tokenizers import pre_tokenizers

from calibsft.responses import parse
from calibsft.responses.spans import TokenOffsets, TokenSpan, confidence_start, decode
from many_tokenizers import (
    TEXTS,
    TOKENIZERS,
    Build,
    byte_level,
    check_both_ways,
    check_spans,
    each_tokenizer,
    encode,
    metaspace,
    noise,
    playground,
    texts_of,
)


def test_the_trained_tokenizers_merge_over_tag_borders_and_split_characters() -> None:
    pieces = set(byte_level().get_vocab())
    assert any("><" in piece for piece in pieces)
    assert any("</answer><confidence>" in piece for piece in pieces)
    assert any("\ufffd" in decode(byte_level(), [i]) for i in encode(byte_level(), "猫は😀"))
    assert decode(metaspace(), encode(metaspace(), " a")[:1]) != " a"
    assert len(encode(metaspace(), "😀")) > 4
    assert [len(texts_of(build())) for build in TOKENIZERS.values()] == [1, len(TEXTS), len(TEXTS)]


@each_tokenizer
def test_a_span_is_what_its_tokens_decode_to_and_holds_what_was_asked(build: Build) -> None:
    for text in texts_of(build()):
        check_spans(build(), encode(build(), text))


def test_spans_hold_for_ids_one_byte_at_a_time() -> None:
    tokenizer = byte_level()
    alphabet = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    for text in TEXTS:
        letters = alphabet.pre_tokenize_str(text)[0][0]
        ids = tokenizer.convert_tokens_to_ids(list(letters))
        assert len(ids) == len(text.encode())
        check_spans(tokenizer, ids)


@each_tokenizer
def test_the_tightest_span_of_every_character_is_found(build: Build) -> None:
    """By brute force: no shorter run of tokens holds the character between whole ones."""
    tokenizer = build()
    for text in texts_of(tokenizer):
        ids = encode(tokenizer, text)
        prefixes = [decode(tokenizer, ids[:count]) for count in range(len(ids) + 1)]
        whole = [(count, len(prefix)) for count, prefix in enumerate(prefixes) if text.startswith(prefix)]
        offsets = TokenOffsets(tokenizer, ids, {})
        for char in range(len(text)):
            start = max(count for count, length in whole if length <= char)
            stop = min(count for count, length in whole if length > char)
            assert (offsets.first_token(char), offsets.span(char, char + 1).stop) == (start, stop), (
                text,
                char,
            )


@each_tokenizer
def test_every_character_belongs_to_the_token_that_completes_it(build: Build) -> None:
    tokenizer = build()
    for text in texts_of(tokenizer):
        ids = encode(tokenizer, text)
        offsets = TokenOffsets(tokenizer, ids, {})
        texts = offsets.texts()
        owners = [token for token, piece in enumerate(texts) for _ in piece]
        assert len(texts) == len(ids) and "".join(texts) == text
        assert owners == [offsets.token_at(char) for char in range(len(text))]


@each_tokenizer
def test_the_texts_of_any_ids_at_all_make_up_the_text(build: Build) -> None:
    random = Random(3)
    for _ in range(50):
        offsets = TokenOffsets(build(), noise(random, build()), {})
        assert "".join(offsets.texts()) == offsets.text


@each_tokenizer
def test_an_empty_span_has_no_tokens(build: Build) -> None:
    offsets = TokenOffsets(build(), encode(build(), TEXTS[0]), {})
    assert offsets.span(3, 3) == offsets.span(5, 3) == TokenSpan(0, 0, "")


@each_tokenizer
def test_the_confidence_segment_starts_at_the_last_tag_with_its_white_space(build: Build) -> None:
    tokenizer = build()
    for text in texts_of(tokenizer):
        ids = encode(tokenizer, text)
        start = confidence_start(text)
        assert start is not None
        at = TokenOffsets(tokenizer, ids, {}).first_token(start)
        before, with_first = (decode(tokenizer, ids[:count]) for count in (at, at + 1))
        assert text.startswith(before)
        # The first token may begin in the answer's closing tag, but it reaches the segment.
        assert len(before) <= start < len(with_first)
        assert text[len(before) :].count("<confidence>") == 1


@each_tokenizer
def test_the_two_segments_decode_to_the_whole_text(build: Build) -> None:
    tokenizer = build()
    for text in texts_of(tokenizer):
        offsets = TokenOffsets(tokenizer, encode(tokenizer, text), {})
        start = confidence_start(text)
        assert start is not None
        confidence = offsets.span(start, len(text))
        reasoning = offsets.span(0, len(decode(tokenizer, encode(tokenizer, text)[: confidence.start])))
        assert reasoning.stop == confidence.start
        assert decode(tokenizer, encode(tokenizer, text)[: reasoning.start]) == ""  # a start mark at most
        assert reasoning.text + confidence.text == text


@each_tokenizer
def test_the_value_of_a_response_is_found_in_its_tokens(build: Build) -> None:
    for text in texts_of(build()):
        value = parse(text).value_span
        if value is not None:
            span = TokenOffsets(build(), encode(build(), text), {}).span(*value)
            assert text[slice(*value)] in span.text
            assert "<answer>" not in span.text


@each_tokenizer
def test_lengths_of_pieces_and_search_over_prefixes_agree(build: Build) -> None:
    tokenizer, random = build(), Random(1)
    alphabet = "0123456789.+-*x=" if build is playground else "ab <>/answerconfidence0.5\n"
    used = 0
    for number in range(60):
        text = "".join(random.choice(alphabet) for _ in range(30))
        ids = encode(tokenizer, random.choice(texts_of(tokenizer)) + text)
        if number % 2:
            random.shuffle(ids)  # not what the tokenizer would choose
        used += check_both_ways(tokenizer, ids)
    assert used or build is metaspace  # there a piece alone has lost its space


@each_tokenizer
def test_spans_hold_for_any_ids_at_all(build: Build) -> None:
    random = Random(2)
    for _ in range(40):
        ids = noise(random, build())
        offsets = TokenOffsets(build(), ids, {})
        for _ in range(10):
            start, stop = sorted(random.sample(range(len(offsets.text) + 1), 2))
            span = offsets.span(start, stop)
            before, through = decode(build(), ids[: span.start]), decode(build(), ids[: span.stop])
            assert len(before) <= start
            assert stop <= len(through)
            assert offsets.text.startswith(through)
            assert before + span.text == through


def test_byte_fallback_runs_are_cut_at_their_own_characters() -> None:
    """Inside a run of bytes an unfinished character turns the finished ones before it into U+FFFD too."""
    tokenizer = metaspace()
    ids = tokenizer.convert_tokens_to_ids([f"<0x{byte:02X}>" for byte in "😀😁😂".encode()])
    assert decode(tokenizer, ids[:5]) == "\ufffd" * 5
    offsets = TokenOffsets(tokenizer, ids, {})
    assert [offsets.token_at(char) for char in range(3)] == [3, 7, 11]
    assert [offsets.span(char, char + 1) for char in range(3)] == [
        TokenSpan(0, 4, "😀"), TokenSpan(4, 8, "😁"), TokenSpan(8, 12, "😂"),
    ]  # fmt: skip


def test_a_token_that_begins_the_next_character_takes_the_rest_of_it_along() -> None:
    tokenizer = byte_level()
    space_and_three_bytes = "ĠðŁĺ"  # as the vocabulary spells them
    assert space_and_three_bytes in tokenizer.get_vocab()
    ids = tokenizer.convert_tokens_to_ids(["a", space_and_three_bytes, "Ģ", "b"])
    offsets = TokenOffsets(tokenizer, ids, {})
    assert offsets.text == "a 😀b"
    assert [offsets.token_at(char) for char in range(4)] == [0, 1, 2, 3]
    assert [offsets.first_token(char) for char in range(4)] == [0, 1, 1, 3]
    assert offsets.span(1, 2) == offsets.span(2, 3) == TokenSpan(1, 3, " 😀")
    assert offsets.span(0, 2) == TokenSpan(0, 3, "a 😀")


@each_tokenizer
@pytest.mark.parametrize("char", [-1, 10**6])
def test_a_character_outside_the_text_is_refused(build: Build, char: int) -> None:
    with pytest.raises(ValueError, match="outside a text of 72"):
        TokenOffsets(build(), encode(build(), TEXTS[0]), {}).token_at(char)


@each_tokenizer
def test_a_sequence_without_tokens_has_an_empty_text(build: Build) -> None:
    offsets = TokenOffsets(build(), [], {})
    assert offsets.text == ""
    assert offsets.span(0, 0) == TokenSpan(0, 0, "")


def test_pieces_are_decoded_once_for_all_sequences() -> None:
    tokenizer, pieces = byte_level(), {}
    TokenOffsets(tokenizer, encode(tokenizer, TEXTS[1]), pieces)
    assert pieces == {i: decode(tokenizer, [i]) for i in encode(tokenizer, TEXTS[1])}
    wrong = dict.fromkeys(pieces, "?")  # proof that the cache is what is read
    assert TokenOffsets(tokenizer, encode(tokenizer, TEXTS[1]), wrong)._ends is None


def test_decoding_keeps_special_tokens_and_every_space() -> None:
    tokenizer = byte_level()
    end = tokenizer.eos_token_id
    text = "it 's , a b . do n't !"
    assert decode(tokenizer, [*encode(tokenizer, text), end]) == f"{text}<|end|>"


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("", None),
        ("<confidence", None),
        ("<confidence>", 0),
        (" \n<confidence>", 0),
        ("a<confidence>", 1),
        ("a \r\n\t<confidence> 0.50", 1),
        ("a\u3000\u00a0<confidence>", 1),
        ("<confidence>0.10</confidence>  <confidence>", 29),
    ],
)
def test_the_start_of_the_confidence_in_the_text(text: str, start: int | None) -> None:
    assert confidence_start(text) == start
