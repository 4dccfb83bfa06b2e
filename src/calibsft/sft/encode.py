"""Turn a training row into token ids and their segments.

The sampled ids stay where the text is unchanged. Only the confidence value and what follows are encoded again, and the
ids must decode to exactly the row's text. A chat template would drop or rewrap the reasoning of some models.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from transformers import PreTrainedTokenizerBase

from calibsft.errors import InputError
from calibsft.responses.formats import Format
from calibsft.responses.parse import parse
from calibsft.responses.spans import TokenOffsets, confidence_start, decode


@dataclass(frozen=True, slots=True)
class Example:
    """One training sequence. `prompt` is unsupervised. `response` is reasoning and answer up to `confidence_at`, and
    confidence from there through the end-of-sequence token."""

    prompt: tuple[int, ...]
    response: tuple[int, ...]
    confidence_at: int
    correct: bool

    def __len__(self) -> int:
        return len(self.prompt) + len(self.response)


class Encoder:
    """Encodes the rows of one training set with one tokenizer."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, confidence_format: Format) -> None:
        self._tokenizer, self._format = tokenizer, confidence_format
        self._pieces: dict[int, str] = {}

    def encode(
        self, prompt: tuple[int, ...], text: str, sampled: Sequence[int] | None, correct: bool
    ) -> Example:
        """The example of a well-formed response `text`.

        `sampled` are the ids of the text before its confidence was replaced, with or without the end-of-sequence token;
        None if unknown.
        """
        parsed, start = parse(text, self._format), confidence_start(text)
        span = parsed.value_span if parsed.ok else None
        if span is None or start is None:
            raise InputError(
                f"a training response is not well formed as '{self._format.name}': {text[-80:]!r}; give the --format that"
                " calibsft build wrote it in"
            )
        ids = (self._keep_sampled(text, sampled, span[0]) if sampled else None) or self._encode_all(text)
        offsets = TokenOffsets(self._tokenizer, ids, self._pieces)
        return Example(prompt, (*ids, self._tokenizer.eos_token_id), offsets.first_token(start), correct)

    def _keep_sampled(self, text: str, sampled: Sequence[int], value_start: int) -> tuple[int, ...] | None:
        """Sampled ids up to the token with the value's first character, then the ids of the rest.

        None if the sampled ids do not belong to the text, or both parts together do not decode to it.
        """
        sampled = sampled[:-1] if sampled[-1] == self._tokenizer.eos_token_id else sampled
        offsets = TokenOffsets(self._tokenizer, sampled, self._pieces)
        if len(offsets.text) <= value_start or not offsets.text.startswith(text[:value_start]):
            return None
        kept = tuple(sampled[: offsets.first_token(value_start)])
        unchanged = decode(self._tokenizer, kept)
        rest = text[len(unchanged) :]
        for encode in (self._ids, self._ids_inside):
            ids = kept + encode(rest)
            if decode(self._tokenizer, ids) == text:
                return ids
        return None

    def _encode_all(self, text: str) -> tuple[int, ...]:
        ids = self._ids(text)
        if decode(self._tokenizer, ids) != text:
            raise InputError(
                f"the tokenizer does not reproduce a response: {text[:80]!r} becomes {decode(self._tokenizer, ids)[:80]!r};"
                " remove such rows or use a tokenizer that covers their characters"
            )
        return ids

    def _ids(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def _ids_inside(self, text: str) -> tuple[int, ...]:
        """The ids of `text` inside a longer text, for tokenizers that put a space before the first word."""
        return self._ids("\n" + text)[len(self._ids("\n")) :]
