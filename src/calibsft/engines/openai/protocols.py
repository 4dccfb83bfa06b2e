"""The two ways to ask a server for a response: completions of token ids, and chat.

Each makes the body of a request and reads a choice of the reply. A server's reply is not trusted: what has the wrong type
is a `Failed` reply, and is asked for again.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from calibsft.engines.engine import SEEDS, Completion, Request, Sampling, Tokenizer
from calibsft.engines.next_tokens import is_logprob
from calibsft.engines.text_engine import Unwritable, completion_of_text, end_of_stop
from calibsft.responses.spans import decode
from calibsft.served.server import Failed, Reply

# A model's or a server's own sampling defaults would change what the settings ask for: these switch them off.
PLAIN: Reply = {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}


@dataclass(frozen=True, slots=True)
class Completions:
    """Token ids in; token ids and log-probabilities out where the server gives them.

    `exact` says whether the server returns token ids and keeps stop strings, as vLLM does. Other servers remove stop
    strings silently, so they get none, and the response is cut here. `common` has the fields of every request, the
    model's name among them.
    """

    tokenizer: Tokenizer
    end_ids: tuple[int, ...]
    exact: bool
    common: Reply
    path: str = "/completions"

    def body(self, request: Request, seed: int, sampling: Sampling) -> Reply:
        stop = {"stop": list(sampling.stop), "include_stop_str_in_output": True}
        exact = {"return_token_ids": True, **(stop if sampling.stop else {})}
        return {
            **PLAIN,
            **self.common,
            **_drawing(seed, sampling),
            "stop_token_ids": list(self.end_ids),
            "prompt": list(request.prompt_ids),
            "logprobs": 1,
            **(exact if self.exact else {}),
        }

    def completion(self, choice: Reply, sampling: Sampling) -> Completion:
        finished = choice.get("finish_reason") == "stop"
        ids = token_ids(choice, len(self.tokenizer))
        if ids is None:
            return _of_text(self.tokenizer, _text(choice.get("text")), choice, sampling)
        logprobs = _logprobs(choice, len(ids))
        ended = "" if self.exact else end_of_stop(decode(self.tokenizer, ids), sampling.stop)
        if ended:
            ids, finished = _until(self.tokenizer, ids, ended), True
        elif finished and not self.exact and (not ids or ids[-1] not in self.end_ids):
            ids = (*ids, self.end_ids[0])
        known = np.full(len(ids), np.nan, dtype=np.float32)
        known[: len(logprobs)] = logprobs[: len(ids)]
        completion = Completion.without_figures(ids, finished)
        return replace(completion, logprobs=known, ended_by=_unusual(choice))


@dataclass(frozen=True, slots=True)
class Chat:
    """Messages in, text out. `limit` is the name of the field for the most tokens of a response."""

    tokenizer: Tokenizer
    limit: str
    common: Reply
    path: str = "/chat/completions"

    def body(self, request: Request, seed: int, sampling: Sampling) -> Reply:
        drawing = _drawing(seed, sampling)
        arguments = {"chat_template_kwargs": dict(request.template)} if request.template else {}
        limit = {self.limit: drawing.pop("max_tokens")}
        return {**self.common, **drawing, **limit, "messages": list(request.turns), **arguments}

    def completion(self, choice: Reply, sampling: Sampling) -> Completion:
        message = choice.get("message")
        if not isinstance(message, dict):
            raise Failed("reply")
        # Some servers take the reasoning out of the text.
        thought = message.get("reasoning_content") or message.get("reasoning")
        text = _text(message.get("content") or "")
        whole = f"<think>{thought}</think>{text}" if isinstance(thought, str) else text
        return _of_text(self.tokenizer, whole, choice, sampling)


Way: TypeAlias = Completions | Chat


def _of_text(tokenizer: Tokenizer, text: str, choice: Reply, sampling: Sampling) -> Completion:
    try:
        completion = completion_of_text(tokenizer, text, choice.get("finish_reason") == "stop", sampling)
    except Unwritable as error:
        return refused(str(error))
    return replace(completion, ended_by=_unusual(choice))


def refused(why: str) -> Completion:
    """The empty response of a request that the server refuses, or whose text cannot be kept."""
    return replace(Completion.without_figures((), finished=False), ended_by="error", error=why)


def _drawing(seed: int, sampling: Sampling) -> Reply:
    return {
        "max_tokens": sampling.max_new_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "seed": seed % SEEDS,
    }


def token_ids(choice: Reply, vocabulary: int) -> tuple[int, ...] | None:
    """The ids of the response's tokens, None if the server does not give them."""
    ids = choice.get("token_ids")
    if ids is None:
        ids = _of_each_token(choice, "id")
    if not isinstance(ids, list) or None in ids:
        return None
    if not all(type(i) is int and 0 <= i < vocabulary for i in ids):
        raise Failed("reply")
    return tuple(ids)


def _logprobs(choice: Reply, count: int) -> Sequence[float]:
    """The log-probability of each token; none if the server gives none."""
    logprobs = choice.get("logprobs")
    given: Any = logprobs.get("token_logprobs") if isinstance(logprobs, dict) else None
    if given is None:
        given = _of_each_token(choice, "logprob")
    right = isinstance(given, list) and len(given) == count and all(map(is_logprob, given))
    return given if right else []


def _of_each_token(choice: Reply, name: str) -> list[Any] | None:
    """A field of each token as chat replies list them; llama.cpp does so for completions too, with ids."""
    match choice.get("logprobs"):
        case {"content": list(content)}:
            return [entry.get(name) if isinstance(entry, dict) else None for entry in content]
    return None


def _until(tokenizer: Tokenizer, ids: tuple[int, ...], text: str) -> tuple[int, ...]:
    """The fewest first ids whose text contains `text`, which ends with a stop string."""
    count = bisect_left(range(len(ids)), len(text), lo=1, key=lambda n: len(decode(tokenizer, ids[:n])))
    return ids[:count]


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise Failed("reply")
    return value


def _unusual(choice: Reply) -> str:
    """Why the server ended the response, if that is neither its end nor the length limit."""
    reason = choice.get("finish_reason")
    return reason if isinstance(reason, str) and reason not in ("stop", "length") else ""
