"""Next-token probabilities from a served copy of a model, behind an OpenAI-compatible endpoint: vLLM or SGLang.

The prompt is sent as token ids to the completions endpoint, so the server continues exactly what was sampled. A chat
endpoint would render and encode the conversation again, and some templates rewrap or drop the reasoning. The key comes
from `CALIBSFT_ESTIMATOR_API_KEY`, else `OPENAI_API_KEY`. Does not sample responses.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from calibsft.endpoint import Endpoint, Role, Way
from calibsft.engines.engine import FloatArray
from calibsft.errors import InputError
from calibsft.progress import warn
from calibsft.responses.spans import Decoder, decode

if TYPE_CHECKING:
    from openai import OpenAI

# The most that vLLM gives, unless it is started with a higher limit.
TOP = 20
ROLE = Role(
    who="the estimator's model",
    gives="completions",
    key="CALIBSFT_ESTIMATOR_API_KEY",
    url="eval.estimator_url",
    model="eval.estimator_model",
    when_slow="see to that server and run again",
    when_busy="run again later",
    when_refused=f"it must take token ids and give {TOP} log-probabilities, as vLLM and SGLang do",
)


class ServedModel:
    """A model behind an endpoint; see `NextTokens` and, for the parameters, `Endpoint`.

    A token that is not among the 20 most probable ones has probability 0. So has every token after a prompt that the server
    refuses.
    """

    def __init__(
        self,
        url: str,
        model: str,
        tokenizer: Decoder,
        concurrency: int = 8,
        timeout: float = 600.0,
        retries: int = 3,
    ) -> None:
        self._url, self._tokenizer = url, tokenizer
        ways: Sequence[Way] = ({"max_tokens": 1, "temperature": 1, "logprobs": TOP},)
        self._endpoint = Endpoint(ROLE, url, model, ways, concurrency, timeout, retries)

    def next_logprobs(
        self,
        prompts: Sequence[tuple[int, ...]],
        ids: Sequence[int],
        on_done: Callable[[int], None] | None = None,
    ) -> FloatArray:
        """One request for every distinct prompt; see `NextTokens`."""
        words = [decode(self._tokenizer, [i]) for i in ids]
        copies = Counter(prompts)
        distinct = list(copies)
        found: dict[tuple[int, ...], FloatArray] = {}
        refused = 0

        def keep(i: int, top: dict[str, float] | None) -> None:
            nonlocal refused
            refused += top is None
            values = [(top or {}).get(word, -math.inf) for word in words]
            found[distinct[i]] = np.array(values, dtype=np.float32)
            if on_done:
                on_done(copies[distinct[i]])

        if distinct:
            self._endpoint.ask_all(
                [len(prompt) for prompt in distinct], lambda i: self._top(distinct[i]), keep
            )
        if refused:
            warn(f"the server refused {refused:,} of {len(distinct):,} prompts: they have no probabilities")
        return np.array([found[prompt] for prompt in prompts], dtype=np.float32).reshape(-1, len(ids))

    def _top(self, prompt: tuple[int, ...]) -> dict[str, float] | None:
        """The most probable next tokens, None if the server refuses this one prompt."""

        def create(client: "OpenAI", way: Way) -> Any:
            return client.completions.create(model=self._endpoint.model, prompt=list(prompt), **way)

        choice = self._endpoint.choice(create)
        if choice is None:
            return None
        top = getattr(getattr(choice, "logprobs", None), "top_logprobs", None)
        if not (
            isinstance(top, list)
            and top
            and isinstance(top[0], dict)
            and all(map(_is_logprob, top[0].values()))
        ):
            raise InputError(
                f"{ROLE.who} at {self._url} gives no log-probabilities; serve it with vLLM or SGLang, or leave out"
                f" {ROLE.url} to take those of the loaded model"
            )
        return top[0]


def _is_logprob(value: object) -> bool:
    return isinstance(value, int | float) and -math.inf <= value < math.inf
