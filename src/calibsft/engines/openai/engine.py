"""Sample from servers: one request per sample, with that sample's own seed.

A server that caches prefixes shares the prompt's computation among the samples of a question. A request that the server
refuses becomes an empty response with its error; one that fails is repeated, and if it fails for good, the command stops
after the others have been answered.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from calibsft.engines.engine import Completion, FloatArray, OnDone, OnSample, Request, Sampling, Tokenizer
from calibsft.engines.next_tokens import ServedProbabilities
from calibsft.engines.openai import OpenAiSettings
from calibsft.engines.openai.protocols import Completions, Way, refused
from calibsft.errors import InputError
from calibsft.progress import warn
from calibsft.served.fleet import Fleet
from calibsft.served.server import Failed, Reply, first_choice

MILLION = 1_000_000


class Budget:
    """Tokens as the servers count them, and the most that may be used."""

    def __init__(self, settings: OpenAiSettings) -> None:
        self._settings = settings
        self.used = {"prompt_tokens": 0, "completion_tokens": 0}

    def add(self, reply: Reply) -> None:
        usage = reply.get("usage")
        counts = usage if isinstance(usage, dict) else {}
        for name in self.used:
            count = counts.get(name)
            self.used[name] += count if type(count) is int and count >= 0 else 0

    @property
    def spent(self) -> str | None:
        """Which budget is spent, as part of a sentence; None if none is."""
        tokens, cost = self._settings.token_budget, self._settings.cost_budget
        if tokens is not None and sum(self.used.values()) >= tokens:
            return f"engine.token_budget, {tokens:,} tokens, is"
        priced = zip(self.used.values(), self._settings.price, strict=False)
        if cost is not None and sum(count * price for count, price in priced) / MILLION >= cost:
            return f"engine.cost_budget, {cost:g}, is"
        return None


@dataclass(eq=False)
class OpenAiEngine:
    """Samples from a fleet in one way; see `Engine`. `context` is None if the servers do not say it."""

    device = "served"

    fleet: Fleet
    way: Way
    tokenizer: Tokenizer
    end_ids: tuple[int, ...]
    context: int | None
    budget: Budget

    @property
    def usage(self) -> dict[str, int]:
        return dict(self.budget.used)

    def generate(
        self, requests: Sequence[Request], sampling: Sampling, on_sample: OnSample | None = None
    ) -> list[list[Completion]]:
        """One request for every seed that is not done; see `Engine`."""
        if not isinstance(self.way, Completions):
            _require_turns(requests)
        places = [(i, j) for i, request in enumerate(requests) for j in request.open]
        found: dict[tuple[int, int], Completion] = {}

        def read(number: int, reply: Reply) -> Completion:
            self.budget.add(reply)
            return self.way.completion(first_choice(reply), sampling)

        def settle(number: int, outcome: Completion | Failed) -> bool:
            i, j = places[number]
            found[i, j] = refused(f"refused{outcome.answer}") if isinstance(outcome, Failed) else outcome
            if on_sample:
                on_sample(i, j, found[i, j])
            return self.budget.spent is not None

        bodies = [self._body(requests[i], requests[i].seeds[j], sampling) for i, j in places]
        self.fleet.ask_all([(self.way.path, body) for body in bodies], read, settle)
        if len(found) < len(places):
            self._refuse_spent()
        if lost := sum(completion.error is not None for completion in found.values()):
            warn(f"{lost:,} of {len(found):,} requests were refused: their responses are empty")
        return [[found[i, j] for j in request.open] for i, request in enumerate(requests)]

    def next_logprobs(
        self, prompts: Sequence[tuple[int, ...]], ids: Sequence[int], on_done: OnDone = None
    ) -> FloatArray:
        """See `ServedProbabilities`."""
        if not isinstance(self.way, Completions):
            raise InputError(
                f"{self.fleet.role.who} at {self.fleet.urls[0]} gives texts and no probabilities of tokens; serve the model"
                " with vLLM or SGLang, or choose another engine"
            )
        served = ServedProbabilities(self.fleet, self.tokenizer, self.way.exact)
        return served.next_logprobs(prompts, ids, on_done)

    def _body(self, request: Request, seed: int, sampling: Sampling) -> Reply:
        if self.context is not None:
            room = self.context - len(request.prompt_ids)
            sampling = replace(sampling, max_new_tokens=min(sampling.max_new_tokens, room))
        return self.way.body(request, seed, sampling)

    def _refuse_spent(self) -> NoReturn:
        prompts, responses = self.budget.used.values()
        raise InputError(
            f"{self.budget.spent} spent ({prompts:,} tokens of prompts, {responses:,} of responses); finished"
            " responses are kept, run the same command again to go on"
        )


def _require_turns(requests: Sequence[Request]) -> None:
    if any(not request.turns for request in requests):
        raise InputError(
            "a chat endpoint cannot continue a response, so token budgets and forced answers need a server of completions"
            " by token ids, such as vLLM; leave out eval.budgets and rollout.force_answer, or set engine.api to completions"
        )
