"""What every engine takes and gives, so that nobody who drives one knows which it is.

An engine samples completions for prompts that are already token ids. One `Request` is one question: all
its samples share one prefill. Each sample carries its own seed, so a response does not depend on what else
was in the batch or on which samples an earlier run already finished.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Generic, Protocol, TypeAlias, TypeVar

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

    `token_ids` include the end-of-sequence token when `finished` by it; `logprobs` and `entropies` (nats) have
    one entry per token and are those of the model itself at temperature 1, whatever the sampling; NaN where an engine
    does not know them.
    """

    token_ids: tuple[int, ...]
    finished: bool
    logprobs: FloatArray
    entropies: FloatArray


class NextTokens(Protocol):
    """Says how probable some tokens are as the next one."""

    def next_logprobs(
        self,
        prompts: Sequence[tuple[int, ...]],
        ids: Sequence[int],
        on_done: Callable[[int], None] | None = None,
    ) -> FloatArray:
        """Log-probabilities in nats, at temperature 1, of each of `ids` after each prompt: (prompts, ids).

        Minus infinity is a probability of 0, or one too small to be told. `on_done(prompts)` is told as they are done.
        """
        ...


class Engine(NextTokens, Protocol):
    """Samples completions from one model. One that knows texts alone is a `TextEngine`."""

    @property
    def tokenizer(self) -> "PreTrainedTokenizerBase": ...

    @property
    def end_ids(self) -> tuple[int, ...]:
        """Every id that ends a response."""
        ...

    @property
    def context(self) -> int | None:
        """How many tokens prompt and response may have together, None when unlimited."""
        ...

    @property
    def device(self) -> str:
        """Where the model runs, for manifests."""
        ...

    def generate(
        self,
        requests: Sequence[Request],
        sampling: Sampling,
        on_done: Callable[[int, int], None] | None = None,
    ) -> list[list[Completion]]:
        """One list per request, in order; `on_done(responses, tokens)` is called as they are done."""
        ...


class TrainableEngine(Engine, Protocol):
    """An engine that RL can sample with: it knows log-probabilities and takes new weights."""

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
        From settings, model, device and dtype to the engine; heavy libraries are imported here.
    for_training
        From settings, a model in memory and its tokenizer to an engine for RL; None where it cannot be one.
    """

    settings: type[S]
    load: Callable[[S, str, str, str], Engine]
    for_training: "Callable[[S, PreTrainedModel, PreTrainedTokenizerBase], TrainableEngine] | None" = None


def sample_seed(run_seed: int, dataset: str, question_id: str, sample: int) -> int:
    """The seed of one sample, from what identifies it and nothing else; a signed 64-bit integer."""
    digest = sha256(f"{run_seed}\0{dataset}\0{question_id}\0{sample}".encode()).digest()
    return int.from_bytes(digest[:8], "little", signed=True)
