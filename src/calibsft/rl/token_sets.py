"""Which tokens of a sampled response receive the confidence advantage.

They are found in the exact text of the sampled ids, so this works for malformed responses too. A token across a border
belongs to the later part, as everywhere (`responses.spans`).
"""

import numpy as np

from calibsft.responses.spans import TokenOffsets
from calibsft.rl.method import BoolArray, TokenSet

OPENING, CLOSING, ANSWER_END = "<confidence>", "</confidence>", "</answer>"


def confidence_tokens(offsets: TokenOffsets, tokens: int, token_set: TokenSet) -> BoolArray:
    """One mark per token; `tokens` includes an end-of-sequence token, which `offsets` does not hold."""
    marks_T = np.zeros(tokens, dtype=bool)
    if token_set is TokenSet.POST_ANSWER and (end := offsets.text.rfind(ANSWER_END)) >= 0:
        marks_T[_first_token_after(offsets, end + len(ANSWER_END)) :] = True
    elif token_set is not TokenSet.ALL and (tag := _last_tag(offsets.text)):
        span = offsets.span(*tag)
        marks_T[span.start : span.stop] = True
    return marks_T


def _first_token_after(offsets: TokenOffsets, char: int) -> int:
    return offsets.first_token(char) if char < len(offsets.text) else offsets.tokens


def _last_tag(text: str) -> tuple[int, int] | None:
    """The characters of the last `<confidence>…</confidence>`."""
    end = text.rfind(CLOSING)
    start = text.rfind(OPENING, 0, max(end, 0))
    return (start, end + len(CLOSING)) if start >= 0 else None
