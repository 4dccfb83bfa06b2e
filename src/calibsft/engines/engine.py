"""The types of sampling, and the protocol of all engines, so that callers need not know which engine they use.

An engine samples completions for prompts of token ids. One `Request` is one question: all its samples share one prefill.
Each sample has its own seed, so a response does not depend on the batch or on the samples of an earlier run.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from calibsft.engines.settings import EngineSettings

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

S = TypeVar("S", bound=EngineSettings)
# Names, because importing transformers takes seconds.
Model: TypeAlias = "PreTrainedModel"
Tokenizer: TypeAlias = "PreTrainedTokenizerBase"
FloatArray: TypeAlias = NDArray[np.float32]
Tokens: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to sample: temperature 0 is greedy; `stop` strings end a response and stay in its text."""

    temperature: float = 1.0
    top_p: float = 1.0
    max_new_tokens: int = 8192
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt and the seeds of the samples wanted from it.

    `done` are the numbers of seeds whose completions the caller has; an engine leaves them out where that changes no other
    completion. `turns` is the prompt as chat messages, for servers that take no token ids; empty if it is no whole
    conversation, such as the beginning of a response. `template` has arguments for the chat template of `turns`.
    """

    prompt_ids: Tokens
    seeds: tuple[int, ...]
    done: frozenset[int] = frozenset()
    turns: Sequence[dict[str, str]] = ()
    template: Mapping[str, Any] = field(default_factory=dict)

    @property
    def open(self) -> list[int]:
        """The numbers of the other seeds."""
        return [i for i in range(len(self.seeds)) if i not in self.done]


@dataclass(frozen=True, slots=True, eq=False)
class Completion:
    """One sampled response.

    `token_ids` include the end-of-sequence token if that ended the response. `logprobs` and `entropies` (nats) have one
    entry per token. They are those of the model at temperature 1, for any sampling; NaN if the engine does not know them.
    `ended_by` is what a server says about the end, if that is neither its end nor the length limit. `error` says why a
    server refused to respond; the response is then empty.
    """

    token_ids: Tokens
    finished: bool
    logprobs: FloatArray
    entropies: FloatArray
    ended_by: str = ""
    error: str | None = None

    @property
    def finish_reason(self) -> str:
        """Why the response ended, in the words of the OpenAI API."""
        return self.ended_by or ("stop" if self.finished else "length")

    @classmethod
    def without_figures(cls, token_ids: Tokens, finished: bool) -> Self:
        """A completion whose log-probabilities and entropies are unknown."""
        unknown = np.full(len(token_ids), np.nan, dtype=np.float32)
        return cls(token_ids, finished, unknown, unknown)


# Servers differ in the range of seeds; all take these.
SEEDS = 1 << 31
# Takes the number of a request, the number of a seed in it, and the completion.
OnSample: TypeAlias = Callable[[int, int, Completion], None]
# Takes how many more prompts are done.
OnDone: TypeAlias = Callable[[int], None] | None


class NextTokens(Protocol):
    """Gives the probabilities of next tokens."""

    def next_logprobs(
        self, prompts: Sequence[Tokens], ids: Sequence[int], on_done: OnDone = None
    ) -> FloatArray:
        """Log-probabilities in nats, at temperature 1, of each of `ids` after each prompt: (prompts, ids).

        Minus infinity is a probability of 0, or one that is too small to be known.
        """


class Engine(NextTokens, Protocol):
    """Samples completions from one model. An engine that knows only texts is a `TextEngine`."""

    @property
    def tokenizer(self) -> Tokenizer: ...

    @property
    def end_ids(self) -> tuple[int, ...]:
        """Every id that ends a response."""

    @property
    def context(self) -> int | None:
        """The most tokens of prompt and response together, None if unlimited."""

    @property
    def device(self) -> str:
        """The device of the model, for manifests."""

    @property
    def usage(self) -> Mapping[str, int]:
        """Tokens of prompts and responses that servers have counted so far; empty if none are asked."""

    def generate(
        self, requests: Sequence[Request], sampling: Sampling, on_sample: OnSample | None = None
    ) -> list[list[Completion]]:
        """One list per request, in the order of its seeds; `on_sample` takes every completion as soon as it is there."""


class TrainableEngine(Engine, Protocol):
    """An engine for RL: it knows log-probabilities and takes new weights."""

    def update_weights(self, model: Model) -> None:
        """Sample from the weights of `model` from now on."""


@dataclass(frozen=True, slots=True)
class EngineKind(Generic[S]):
    """One engine as `ENGINES` lists it; the `name` of its settings is that of the engine.

    `load` takes settings, model, device and dtype, and imports heavy libraries. `for_training` makes an engine for RL from
    settings, a model in memory and its tokenizer; None if it cannot be used for RL. `needs` are the modules that it imports, and
    `install` says how they are installed.
    """

    settings: type[S]
    load: Callable[[S, str, str, str], Engine]
    for_training: Callable[[S, Model, Tokenizer], TrainableEngine] | None = None
    needs: tuple[str, ...] = ()
    install: str = "pip install calibsft"


def sample_seed(run_seed: int, dataset: str, question_id: str, sample: int) -> int:
    """The seed of one sample, a signed 64-bit integer, from the sample's id alone."""
    digest = sha256(f"{run_seed}\0{dataset}\0{question_id}\0{sample}".encode()).digest()
    return int.from_bytes(digest[:8], "little", signed=True)
