"""The base of engines that know only texts: the tokenizer gives the tokens, and their probabilities are unknown."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from calibsft.engines.engine import Completion, FloatArray, OnDone, OnSample, Request, Sampling, Tokenizer
from calibsft.errors import InputError
from calibsft.responses.spans import decode


class Unwritable(InputError):
    """A text that the tokenizer does not reproduce."""


class TextEngine(ABC):
    """An `Engine` whose subclass gives `texts`.

    A text ends at a stop string, or is cut at the length limit, like a sampled one.
    """

    context: int | None = None
    device = "cpu"
    usage: Mapping[str, int] = {}

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.end_ids: tuple[int, ...] = (tokenizer.eos_token_id,)

    @abstractmethod
    def texts(self, request: Request) -> Sequence[str]:
        """One text for each of the request's seeds."""

    def generate(
        self, requests: Sequence[Request], sampling: Sampling, on_sample: OnSample | None = None
    ) -> list[list[Completion]]:
        """The texts as completions, without log-probabilities and entropies."""
        results: list[list[Completion]] = [[] for _ in requests]
        for i, request in enumerate(requests):
            texts = self.texts(request)
            for j in request.open:
                results[i].append(completion_of_text(self.tokenizer, texts[j], True, sampling))
                if on_sample:
                    on_sample(i, j, results[i][-1])
        return results

    def next_logprobs(
        self, prompts: Sequence[tuple[int, ...]], ids: Sequence[int], on_done: OnDone = None
    ) -> FloatArray:
        raise InputError(
            "this engine gives texts and no probabilities of tokens; choose another one in engine.name, or ask a served model"
            " for them with eval.estimator_url"
        )


def completion_of_text(tokenizer: Tokenizer, text: str, finished: bool, sampling: Sampling) -> Completion:
    """A text as a completion without figures; it ends at a stop string, or is cut at the length limit."""
    stopped = end_of_stop(text, sampling.stop)
    ending = (tokenizer.eos_token_id,) if finished and not stopped else ()
    ids = (*_ids(tokenizer, stopped or text), *ending)
    kept = ids[: sampling.max_new_tokens]
    return Completion.without_figures(kept, (finished or bool(stopped)) and len(kept) == len(ids))


def end_of_stop(text: str, stop: Sequence[str]) -> str:
    """`text` up to the end of the first stop string; empty if there is none."""
    return text[: min((text.index(end) + len(end) for end in stop if end in text), default=0)]


def _ids(tokenizer: Tokenizer, text: str) -> tuple[int, ...]:
    ids = tuple(tokenizer(text, add_special_tokens=False)["input_ids"])
    if decode(tokenizer, ids) != text:
        raise Unwritable(
            f"the tokenizer does not reproduce a response: {text[:80]!r} becomes {decode(tokenizer, ids)[:80]!r};"
            " remove it or take a model whose tokenizer covers its characters"
        )
    return ids
