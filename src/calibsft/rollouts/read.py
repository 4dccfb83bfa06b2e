"""Read a completion: the offsets of its tokens in its exact text, and the entropy of its confidence."""

from calibsft.engines.engine import Completion, Tokenizer
from calibsft.responses.parse import Parsed
from calibsft.responses.spans import TokenOffsets


def text_offsets(
    tokenizer: Tokenizer, completion: Completion, end_ids: tuple[int, ...], pieces: dict[int, str]
) -> TokenOffsets:
    """The offsets of the response's tokens, without the one that ended it."""
    ids = completion.token_ids
    ended = completion.finished and ids[-1] in end_ids
    return TokenOffsets(tokenizer, ids[:-1] if ended else ids, pieces)


def value_entropy(offsets: TokenOffsets, parsed: Parsed, completion: Completion) -> float | None:
    """The mean next-token entropy of the confidence value, in nats; None if there is no value."""
    if parsed.value_span is None:
        return None
    first, last = offsets.token_at(parsed.value_span[0]), offsets.token_at(parsed.value_span[1] - 1)
    return float(completion.entropies[first : last + 1].mean())
