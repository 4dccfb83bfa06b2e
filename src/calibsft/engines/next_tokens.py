"""The probabilities of next tokens from servers: the most probable tokens after a prompt of token ids.

A token that is not among them has probability 0. A chat endpoint would render and encode the conversation again, and some
templates rewrap or drop the reasoning, so completions are asked for. Does not sample responses.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calibsft.engines.engine import FloatArray, OnDone, Tokens
from calibsft.errors import InputError
from calibsft.progress import warn
from calibsft.responses.spans import Decoder, decode
from calibsft.served.fleet import Fleet
from calibsft.served.role import Role
from calibsft.served.server import Failed, Reply, first_choice

# The most that vLLM gives, unless it is started with a higher limit.
TOP = 20
ESTIMATOR = Role(
    who="the estimator's model",
    gives="completions",
    key="CALIBSFT_ESTIMATOR_API_KEY",
    url="eval.estimator_url",
    model="eval.estimator_model",
    when_slow="check that server and run again",
    when_busy="run again later",
    when_refused=f"it must take token ids and give {TOP} log-probabilities, as vLLM and SGLang do",
)


class ServedProbabilities:
    """Next-token probabilities of a fleet's model; see `NextTokens`.

    `by_id` says that the servers can name tokens by their ids. Every token after a prompt that the servers refuse has
    probability 0.
    """

    def __init__(self, fleet: Fleet, tokenizer: Decoder, by_id: bool = False) -> None:
        self._fleet, self._tokenizer, self._by_id = fleet, tokenizer, by_id

    def next_logprobs(
        self, prompts: Sequence[Tokens], ids: Sequence[int], on_done: OnDone = None
    ) -> FloatArray:
        """One request for every distinct prompt; see `NextTokens`."""
        copies = Counter(prompts)
        found: dict[Tokens, FloatArray] = {}
        nothing = np.full(len(ids), -np.inf, dtype=np.float32)
        keys = [(f"token_id:{i}", decode(self._tokenizer, [i])) for i in ids]

        def keep(prompt: Tokens, outcome: dict[str, float] | Failed) -> None:
            if isinstance(outcome, Failed) and not found:
                raise self._fleet.problem(outcome, self._fleet.urls[0])
            found[prompt] = nothing if isinstance(outcome, Failed) else _values(outcome, keys)
            if on_done:
                on_done(copies[prompt])

        # The shortest prompt goes first and alone: if it is refused, the server is wrong and not the prompt.
        distinct = sorted(copies, key=len)
        self._ask(distinct[:1], keep)
        self._ask(distinct[1:], keep)
        if refusals := sum(values is nothing for values in found.values()):
            warn(f"the server refused {refusals:,} of {len(distinct):,} prompts: they have no probabilities")
        return np.array([found[prompt] for prompt in prompts], dtype=np.float32).reshape(-1, len(ids))

    def _ask(self, prompts: Sequence[Tokens], keep: Callable[[Tokens, Any], None]) -> None:
        def settle(number: int, outcome: dict[str, float] | Failed | None) -> bool:
            if outcome is None:
                raise InputError(
                    f"{self._fleet.role.who} at {self._fleet.urls[0]} gives no log-probabilities; serve it with vLLM or"
                    f" SGLang, or leave out {self._fleet.role.url}"
                )
            keep(prompts[number], outcome)
            return False

        requests = [("/completions", self._body(prompt)) for prompt in prompts]
        self._fleet.ask_all(requests, lambda _, reply: _most_probable(first_choice(reply)), settle)

    def _body(self, prompt: Tokens) -> Reply:
        named = {"return_tokens_as_token_ids": True} if self._by_id else {}
        asked = {"prompt": list(prompt), "max_tokens": 1, "temperature": 1, "logprobs": TOP}
        return {"model": self._fleet.model, **asked, **named}


def served_copy(url: str, model: str, tokenizer: Decoder) -> ServedProbabilities:
    """The probabilities of a served copy of an evaluated model."""
    return ServedProbabilities(Fleet(ESTIMATOR, (url,), model, 8, 600.0, 3), tokenizer)


def _values(top: dict[str, float], keys: Sequence[tuple[str, str]]) -> FloatArray:
    return np.array([top.get(by_id, top.get(word, -math.inf)) for by_id, word in keys], dtype=np.float32)


def _most_probable(choice: Reply) -> dict[str, float] | None:
    """The most probable tokens of a choice with their log-probabilities, None if it has none."""
    logprobs: Any = choice.get("logprobs")
    logprobs = logprobs if isinstance(logprobs, dict) else {}
    match logprobs.get("top_logprobs"), logprobs.get("content"):
        case [dict(top), *_], _:
            found = top
        case _, [{"top_logprobs": list(entries)}, *_]:
            found = {e.get("token"): e.get("logprob") for e in entries if isinstance(e, dict)}
        case _:
            return None
    return found if found and all(map(is_logprob, found.values())) else None


def is_logprob(value: object) -> bool:
    return type(value) in (int, float) and -math.inf <= value < math.inf  # type: ignore[operator]
