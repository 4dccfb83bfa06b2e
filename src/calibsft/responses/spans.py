"""From characters to tokens: which tokens of a response belong to which part of its text.

Works for any tokenizer and for ids as they were sampled, which need not be the ids that the tokenizer
would choose for the same text. A byte-level tokenizer merges across tag borders (`</answer><confidence>`
may hold a token `><`), so a span is widened to whole tokens, and a token belongs to the part in which its
last needed character starts: the token that opens `<confidence>` is the first of the confidence.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


class Decoder(Protocol):
    """What spans need of a tokenizer; every Hugging Face tokenizer has it."""

    def decode(
        self,
        token_ids: Sequence[int],
        *,
        skip_special_tokens: bool = ...,
        clean_up_tokenization_spaces: bool = ...,
    ) -> str: ...


@dataclass(frozen=True, slots=True)
class TokenSpan:
    """Tokens `start` up to, not including, `stop`; `text` is exactly what they decode to."""

    start: int
    stop: int
    text: str


def decode(tokenizer: Decoder, ids: Sequence[int]) -> str:
    """The exact text of `ids`: special tokens kept, no cosmetic change to spaces."""
    return tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)


class TokenOffsets:
    """Where each token of one sequence starts in the decoded text.

    Parameters
    ----------
    pieces
        Cache from token id to its text alone, shared between sequences of one tokenizer.
    """

    def __init__(self, tokenizer: Decoder, ids: Sequence[int], pieces: dict[int, str]) -> None:
        self._tokenizer, self._ids = tokenizer, ids
        parts = [pieces.get(i) or pieces.setdefault(i, decode(tokenizer, [i])) for i in ids]
        self.text = decode(tokenizer, ids)
        # Where the pieces alone make up the text, their lengths are the offsets. Where they do not
        # (a character split over tokens, a tokenizer that drops leading spaces) prefixes are decoded.
        self._lengths = [len(part) for part in parts] if "".join(parts) == self.text else None

    def token_at(self, char: int) -> int:
        """The index of the token that completes the character at `char`."""
        if self._lengths is not None:
            end = 0
            for index, length in enumerate(self._lengths):
                end += length
                if end > char:
                    return index
            raise ValueError(f"character {char} lies after the last token")
        return self._search(char)

    def _search(self, char: int) -> int:
        wanted = self.text[: char + 1]
        low, high = 0, len(self._ids)
        while low < high:
            middle = (low + high) // 2
            if decode(self._tokenizer, self._ids[: middle + 1]).startswith(wanted):
                high = middle
            else:
                low = middle + 1
        return low

    def span(self, start: int, stop: int) -> TokenSpan:
        """The tokens that hold the characters `start` to `stop`, with the text that they make."""
        if start >= stop:
            return TokenSpan(0, 0, "")
        first, last = self.token_at(start), self.token_at(stop - 1)
        before = decode(self._tokenizer, self._ids[:first])
        through = decode(self._tokenizer, self._ids[: last + 1])
        return TokenSpan(first, last + 1, through[len(before) :])


def confidence_start(text: str) -> int | None:
    """Where the confidence segment begins: the last `<confidence>` with its leading white space."""
    start = text.rfind("<confidence>")
    return len(text[:start].rstrip()) if start >= 0 else None
