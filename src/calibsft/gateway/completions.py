"""What clients get: completions and streams of the OpenAI API, with one extra field.

The content is the answer, `reasoning_content` the reasoning, and the field `calibsft` the decision. An abstention is a
completion too, and contains nothing of the withheld answer.
"""

import time
from collections.abc import AsyncIterator
from typing import Any

from calibsft.gateway.deciding import Decision, Outcome, Reading
from calibsft.gateway.replies import DONE
from calibsft.gateway.strict_json import write_json

FIELD = "calibsft"
ABSTENTION = "I am not sure enough to answer this."


def local_completion(
    local: dict[str, Any], reading: Reading, decision: Decision, request_id: str
) -> dict[str, Any]:
    """The completion of the local model: its answer, or the abstention."""
    message: dict[str, Any] = {"role": "assistant", "content": ABSTENTION}
    if decision.outcome is Outcome.ANSWERED:
        message |= {"content": reading.answer, "reasoning_content": reading.reasoning}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    model, usage = local.get("model"), local.get("usage")
    completion = {
        "id": request_id,
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model if isinstance(model, str) else "",
        "choices": [choice],
        FIELD: decision.extension(),
    }
    return completion | ({"usage": usage} if isinstance(usage, dict) else {})


def extended(completion: dict[str, Any], decision: Decision) -> dict[str, Any]:
    """The strong model's completion or chunk, with the extra field."""
    return {**completion, FIELD: decision.extension()}


async def in_pieces(completion: dict[str, Any], include_usage: bool) -> AsyncIterator[bytes]:
    """A completion as a stream; the decision is in its first chunk."""
    choice = completion["choices"][0]
    common = {name: completion[name] for name in ("id", "created", "model")}
    common["object"] = "chat.completion.chunk"
    # If usage comes at the end, the API has it as null in every other chunk.
    common |= {"usage": None} if include_usage else {}
    first = {FIELD: completion[FIELD]}
    for delta, reason, extra in ((choice["message"], None, first), ({}, choice["finish_reason"], {})):
        piece: dict[str, Any] = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        yield event({**common, "choices": [piece], **extra})
    if include_usage:
        yield event({**common, "choices": [], "usage": completion.get("usage")})
    yield event(DONE)


def event(data: Any) -> bytes:
    """One server-sent event."""
    return b"data: %b\n\n" % (data.encode() if isinstance(data, str) else write_json(data))
