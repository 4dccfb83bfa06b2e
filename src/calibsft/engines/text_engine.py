"""The base of engines that know only texts: the tokenizer gives the tokens, and their probabilities are unknown."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from calibsft.engines.engine import Completion, FloatArray, Request, Sampling
from calibsft.errors import InputError
from calibsft.responses.spans import decode

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class TextEngine(ABC):
    """An `Engine` whose subclass gives `texts`.

    A text ends at a stop string, or is cut at the length limit, like a sampled one.
    """

    context: int | None = None
    device = "cpu"

    def __init__(self, tokenizer: "PreTrainedTokenizerBase") -> None:
        self.tokenizer = tokenizer
        self.end_ids: tuple[int, ...] = (tokenizer.eos_token_id,)

    @abstractmethod
    def texts(self, request: Request) -> Sequence[str]:
        """One text for each of the request's seeds."""

    def generate(
        self,
        requests: Sequence[Request],
        sampling: Sampling,
        on_done: Callable[[int, int], None] | None = None,
    ) -> list[list[Completion]]:
        """The texts as completions, without log-probabilities and entropies."""
        results = []
        for request in requests:
            row = [self._completion(text, sampling) for text in self.texts(request)]
            results.append(row)
            if on_done:
                on_done(len(row), sum(len(completion.token_ids) for completion in row))
        return results

    def next_logprobs(
        self,
        prompts: Sequence[tuple[int, ...]],
        ids: Sequence[int],
        on_done: Callable[[int], None] | None = None,
    ) -> FloatArray:
        raise InputError(
            "this engine gives texts and no probabilities of tokens; choose another one in engine.name, or ask a served model"
            " for them with eval.estimator_url"
        )

    def _completion(self, text: str, sampling: Sampling) -> Completion:
        end = min((text.index(stop) + len(stop) for stop in sampling.stop if stop in text), default=None)
        ids = (*self._ids(text[:end]), *(self.end_ids if end is None else ()))
        kept = ids[: sampling.max_new_tokens]
        return Completion.without_figures(kept, finished=len(kept) == len(ids))

    def _ids(self, text: str) -> tuple[int, ...]:
        ids = tuple(self.tokenizer(text, add_special_tokens=False)["input_ids"])
        if decode(self.tokenizer, ids) != text:
            raise InputError(
                f"the tokenizer does not reproduce a response: {text[:80]!r} becomes {decode(self.tokenizer, ids)[:80]!r};"
                " remove it or take a model whose tokenizer covers its characters"
            )
        return ids
