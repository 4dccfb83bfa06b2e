"""Find the tokens of each part of a response's text.

Works for any tokenizer, and for sampled ids, which may differ from the tokenizer's own ids for the same text. A byte-level
tokenizer merges across tag borders (`</answer><confidence>` may have a token `><`) and splits characters, so a span is
widened to whole tokens that make whole characters. A token on a border belongs to the later part: the token that opens
`<confidence>` is the first of the confidence.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Protocol


class Decoder(Protocol):
    """The part of a tokenizer that spans need; every Hugging Face tokenizer has it."""

    def decode(
        self,
        token_ids: Sequence[int],
        *,
        skip_special_tokens: bool = ...,
        clean_up_tokenization_spaces: bool = ...,
    ) -> str: ...


@dataclass(frozen=True, slots=True)
class TokenSpan:
    """Tokens from `start` up to, not including, `stop`, and the exact text that they add."""

    start: int
    stop: int
    text: str


def decode(tokenizer: Decoder, ids: Sequence[int]) -> str:
    """The exact text of `ids`, with special tokens and unchanged spaces."""
    return tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)


class TokenOffsets:
    """Where each token of one sequence starts in the decoded text.

    `pieces` caches the text of each token id alone, for all sequences of one tokenizer.
    """

    def __init__(self, tokenizer: Decoder, ids: Sequence[int], pieces: dict[int, str]) -> None:
        self._tokenizer, self._ids = tokenizer, ids
        for i in set(ids).difference(pieces):
            pieces[i] = decode(tokenizer, [i])
        parts = [pieces[i] for i in ids]
        self.text = decode(tokenizer, ids)
        # If the pieces make up the text, their lengths give the offsets. If not (a character split over tokens,
        # a tokenizer that drops leading spaces), prefixes are decoded.
        self._ends = list(accumulate(map(len, parts))) if "".join(parts) == self.text else None

    @property
    def tokens(self) -> int:
        """How many tokens the sequence has."""
        return len(self._ids)

    def token_at(self, char: int) -> int:
        """The index of the token that completes the character at `char`."""
        if not 0 <= char < len(self.text):
            raise ValueError(f"character {char} is outside a text of {len(self.text)}")
        return self._search(char) if self._ends is None else bisect_right(self._ends, char)

    def first_token(self, char: int) -> int:
        """The index of the first token of the character at `char`; the tokens before it make whole characters."""
        first = self.token_at(char)
        while not self._is_whole(first, char):
            first -= 1
        return first

    def span(self, start: int, stop: int) -> TokenSpan:
        """The tokens of the characters `start` to `stop`, with the text that they make."""
        if start >= stop:
            return TokenSpan(0, 0, "")
        first, end = self.first_token(start), self.token_at(stop - 1) + 1
        while not self._is_whole(end, len(self.text)):
            end += 1
        return TokenSpan(first, end, self.text[len(self._prefix(first)) : len(self._prefix(end))])

    def texts(self) -> list[str]:
        """The text that each token adds; empty for a token that completes no character."""
        if self._ends is not None:
            return [self.text[start:end] for start, end in pairwise([0, *self._ends])]
        found: list[str] = []
        done, open_ids = 0, []
        for token in self._ids:
            open_ids.append(token)
            end = self._end_of(decode(self._tokenizer, open_ids), done)
            found.append("" if end is None else self.text[done:end])
            if end is not None:
                done, open_ids = end, []
        if found:
            found[-1] += self.text[done:]
        return found

    def _end_of(self, piece: str, start: int) -> int | None:
        """Where `piece` ends if the text continues with it at `start`, with or without a space that decoding dropped."""
        if piece and self.text.startswith(piece, start):
            return start + len(piece)
        if self.text.startswith(" " + piece, start):
            return start + 1 + len(piece)
        return None

    def _search(self, char: int) -> int:
        wanted = self.text[: char + 1]
        tokens = range(len(self._ids))
        low = bisect_left(tokens, True, key=lambda token: self._prefix(token + 1).startswith(wanted))
        # With byte fallback a cut character garbles characters before it, so an earlier token may be right.
        for count in range(low, 0, -1):
            if self._is_whole(count, char):
                break
            low = count - 1 if self._prefix(count).startswith(wanted) else low
        return low

    def _prefix(self, count: int) -> str:
        """The text of the first `count` tokens."""
        if self._ends is not None:
            return self.text[: self._ends[count - 1] if count else 0]
        return decode(self._tokenizer, self._ids[:count])

    def _is_whole(self, count: int, limit: int) -> bool:
        """Whether the first `count` tokens make at most `limit` characters and split none."""
        prefix = self._prefix(count)
        return len(prefix) <= limit and self.text.startswith(prefix)


def confidence_start(text: str) -> int | None:
    """Where the confidence segment begins: the white space before the last `<confidence>`."""
    start = text.rfind("<confidence>")
    return len(text[:start].rstrip()) if start >= 0 else None
