"""The types of sampling, and the protocol of all engines, so that callers need not know which engine they use.

An engine samples completions for prompts of token ids. One `Request` is one question: all its samples share one prefill.
Each sample has its own seed, so a response does not depend on the batch or on the samples of an earlier run.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Generic, Protocol, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from calibsft.engines.settings import EngineSettings

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

S = TypeVar("S", bound=EngineSettings)
FloatArray: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to sample: temperature 0 is greedy; `stop` strings end a response and stay in its text."""

    temperature: float = 1.0
    top_p: float = 1.0
    max_new_tokens: int = 8192
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt and the seeds of the samples wanted from it."""

    prompt_ids: tuple[int, ...]
    seeds: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Completion:
    """One sampled response.

    `token_ids` include the end-of-sequence token if that ended the response. `logprobs` and `entropies` (nats) have one
    entry per token. They are those of the model at temperature 1, for any sampling; NaN if the engine does not know them.
    """

    token_ids: tuple[int, ...]
    finished: bool
    logprobs: FloatArray
    entropies: FloatArray

    @classmethod
    def without_figures(cls, token_ids: tuple[int, ...], finished: bool) -> Self:
        """A completion whose log-probabilities and entropies are unknown."""
        unknown = np.full(len(token_ids), np.nan, dtype=np.float32)
        return cls(token_ids, finished, unknown, unknown)


class NextTokens(Protocol):
    """Gives the probabilities of next tokens."""

    def next_logprobs(
        self,
        prompts: Sequence[tuple[int, ...]],
        ids: Sequence[int],
        on_done: Callable[[int], None] | None = None,
    ) -> FloatArray:
        """Log-probabilities in nats, at temperature 1, of each of `ids` after each prompt: (prompts, ids).

        Minus infinity is a probability of 0, or one that is too small to be known. `on_done` takes how many more prompts
        are done.
        """
        ...


class Engine(NextTokens, Protocol):
    """Samples completions from one model. An engine that knows only texts is a `TextEngine`."""

    @property
    def tokenizer(self) -> "PreTrainedTokenizerBase": ...

    @property
    def end_ids(self) -> tuple[int, ...]:
        """Every id that ends a response."""
        ...

    @property
    def context(self) -> int | None:
        """The most tokens of prompt and response together, None if unlimited."""
        ...

    @property
    def device(self) -> str:
        """The device of the model, for manifests."""
        ...

    def generate(
        self,
        requests: Sequence[Request],
        sampling: Sampling,
        on_done: Callable[[int, int], None] | None = None,
    ) -> list[list[Completion]]:
        """One list per request, in order; `on_done(responses, tokens)` takes how many more are done."""
        ...


class TrainableEngine(Engine, Protocol):
    """An engine for RL: it knows log-probabilities and takes new weights."""

    def update_weights(self, model: "PreTrainedModel") -> None:
        """Sample from the weights of `model` from now on."""
        ...


@dataclass(frozen=True, slots=True)
class EngineKind(Generic[S]):
    """One engine as `ENGINES` lists it.

    Attributes
    ----------
    settings
        The class of its settings, whose `name` is that of the engine.
    load
        Makes the engine from settings, model, device and dtype; imports its heavy libraries.
    for_training
        Makes an engine for RL from settings, a model in memory and its tokenizer; None if it cannot be used for RL.
    """

    settings: type[S]
    load: Callable[[S, str, str, str], Engine]
    for_training: "Callable[[S, PreTrainedModel, PreTrainedTokenizerBase], TrainableEngine] | None" = None


def sample_seed(run_seed: int, dataset: str, question_id: str, sample: int) -> int:
    """The seed of one sample, a signed 64-bit integer, from the sample's id alone."""
    digest = sha256(f"{run_seed}\0{dataset}\0{question_id}\0{sample}".encode()).digest()
    return int.from_bytes(digest[:8], "little", signed=True)
