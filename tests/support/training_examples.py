"""Training examples for tests of encoding, and what holds for every one."""

from transformers import PreTrainedTokenizerFast

from calibsft.responses import get_format, parse, replace_confidence
from calibsft.responses.spans import confidence_start, decode
from calibsft.sft.encode import Encoder, Example

PROMPT = (3, 1, 4)


def encoder(tokenizer: PreTrainedTokenizerFast, name: str = "probability") -> Encoder:
    return Encoder(tokenizer, get_format(name))


def retargeted(text: str, value: str) -> str:
    return replace_confidence(text, parse(text), value)


def check(tokenizer: PreTrainedTokenizerFast, text: str, example: Example) -> None:
    """What holds for every example."""
    *ids, end = example.response
    start = confidence_start(text)
    assert start is not None
    assert end == tokenizer.eos_token_id
    assert decode(tokenizer, ids) == text
    assert example.prompt == PROMPT
    assert len(example) == len(PROMPT) + len(ids) + 1
    before, through = (decode(tokenizer, ids[: example.confidence_at + more]) for more in (0, 1))
    assert text.startswith(before)
    assert len(before) <= start < len(through)
