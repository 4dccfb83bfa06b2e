"""Sample from a policy in training that servers hold: token ids in, token ids and log-probabilities out.

One request per sample, with the sample's own seed. A response counts only if the newest weights have sampled all of it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from calibsft.engines.engine import (
    SEEDS,
    Completion,
    FloatArray,
    Model,
    OnDone,
    OnSample,
    Request,
    Sampling,
    Tokenizer,
)
from calibsft.engines.next_tokens import is_logprob
from calibsft.engines.policy.fleet import PolicyFleet
from calibsft.engines.policy.weights import Sender
from calibsft.errors import InputError
from calibsft.served.server import Failed, Reply, first_choice

PATH = "/inference/v1/generate"


@dataclass(eq=False)
class PolicyEngine:
    """See `Engine`; it takes weights by `send_weights`. `importance_cap` as in `PolicyServers`."""

    device = "served"

    fleet: PolicyFleet
    sender: Sender
    tokenizer: Tokenizer
    end_ids: tuple[int, ...]
    context: int | None
    importance_cap: float | None = None
    usage: dict[str, int] = field(default_factory=lambda: {"prompt_tokens": 0, "completion_tokens": 0})

    def send_weights(self, model: "Model | None", version: str) -> None:
        """Sample from the weights of `model` from now on, called `version`; None in processes that do not send them."""
        self.fleet.version = version
        self.sender.take(model, version)
        if model is not None:
            self.fleet.send_to_all()
            self.sender.done()

    def generate(
        self, requests: Sequence[Request], sampling: Sampling, on_sample: OnSample | None = None
    ) -> list[list[Completion]]:
        """One request for every seed that is not done; see `Engine`."""
        places = [(i, j) for i, request in enumerate(requests) for j in request.open]
        bodies = [self._body(requests[i], requests[i].seeds[j], sampling) for i, j in places]
        found: dict[tuple[int, int], Completion] = {}

        def settle(number: int, completion: Completion) -> None:
            found[places[number]] = completion
            if on_sample:
                on_sample(*places[number], completion)

        self._ask(bodies, self._completion, settle)
        return [[found[i, j] for j in request.open] for i, request in enumerate(requests)]

    def next_logprobs(
        self, prompts: Sequence[tuple[int, ...]], ids: Sequence[int], on_done: OnDone = None
    ) -> FloatArray:
        """One request for every distinct prompt, with the exact probabilities of `ids`; see `NextTokens`."""
        copies, found = Counter(prompts), {}
        distinct = list(copies)

        def read(choice: Reply) -> list[float]:
            (content,) = _contents(choice, 1)
            known = {entry["token_id"]: entry["logprob"] for entry in content.get("top_logprobs") or ()}
            if not set(ids) <= known.keys():
                raise Failed("reply")
            return [known[i] for i in ids]

        def settle(number: int, logprobs: list[float]) -> None:
            found[distinct[number]] = logprobs
            if on_done:
                on_done(copies[distinct[number]])

        params = {"max_tokens": 1, "logprob_token_ids": list(ids), "detokenize": False}
        self._ask([self._asking(prompt, params) for prompt in distinct], read, settle)
        return np.array([found[prompt] for prompt in prompts], dtype=np.float32).reshape(-1, len(ids))

    def _ask(self, bodies: list[Reply], read: Any, settle: Any) -> None:
        def read_newest(number: int, reply: Reply) -> Any:
            choice = first_choice(reply)
            self.fleet.require_newest(choice)
            self._count(reply)
            return read(choice)

        def on_outcome(number: int, outcome: Any) -> bool:
            if isinstance(outcome, Failed):
                raise InputError(f"a server of the policy refused a request{outcome.answer}; look at its log")
            settle(number, outcome)
            return False

        self.fleet.ask_all([(PATH, body) for body in bodies], read_newest, on_outcome)

    def _body(self, request: Request, seed: int, sampling: Sampling) -> Reply:
        room = sampling.max_new_tokens
        if self.context is not None:
            room = min(room, self.context - len(request.prompt_ids))
        params = {
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "seed": seed % SEEDS,
            "max_tokens": room,
            "stop": list(sampling.stop),
            "include_stop_str_in_output": True,
            "stop_token_ids": list(self.end_ids),
            "logprobs": 1,
            "detokenize": bool(sampling.stop),
        }
        return self._asking(request.prompt_ids, params)

    def _asking(self, prompt: tuple[int, ...], params: Reply) -> Reply:
        return {"model": self.fleet.model, "token_ids": list(prompt), "sampling_params": params}

    def _completion(self, choice: Reply) -> Completion:
        ids = choice.get("token_ids")
        if not isinstance(ids, list) or not all(type(i) is int and 0 <= i < len(self.tokenizer) for i in ids):
            raise Failed("reply")
        completion = Completion.without_figures(tuple(ids), choice.get("finish_reason") == "stop")
        logprobs = [content.get("logprob") for content in _contents(choice, len(ids))]
        if not all(map(is_logprob, logprobs)):
            raise Failed("reply")
        return replace(completion, logprobs=np.array(logprobs, dtype=np.float32))

    def _count(self, reply: Reply) -> None:
        usage = reply.get("usage")
        for name in self.usage:
            count = usage.get(name) if isinstance(usage, dict) else None
            self.usage[name] += count if type(count) is int else 0


def _contents(choice: Reply, count: int) -> list[Reply]:
    """What the server says about each token."""
    match choice.get("logprobs"):
        case {"content": list(contents)} if len(contents) == count:
            if all(isinstance(content, dict) for content in contents):
                return contents
    raise Failed("reply")
