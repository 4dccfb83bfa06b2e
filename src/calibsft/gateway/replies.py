"""Read what servers send: completions and chunks.

Does not trust a server: anything of the wrong shape gives None or False. Does not parse a model's text.
"""

from typing import Any, NamedTuple

from calibsft.gateway.strict_json import read_json

DONE = "[DONE]"
# No reply has more; a server that reports more is not counted.
MOST_TOKENS = 1 << 40
TOKENS = ("prompt", "completion")


class Chunk(NamedTuple):
    """One piece of a stream, as it came and read."""

    data: str
    value: dict[str, Any]


def json_of(text: str | bytes) -> Any:
    """The value of a JSON text, None if it is not JSON."""
    try:
        return read_json(text)
    except ValueError:
        return None


def text_of(completion: dict[str, Any]) -> str | None:
    """The whole text of the first choice, None if this is no completion.

    A server with a reasoning parser moves the reasoning out of the text, and sends no text if nothing else is left. This
    puts the reasoning back.
    """
    match completion:
        case {"choices": [{"message": {"content": str() | None as content} as message}, *_]}:
            text = content or ""
            reasoning = message.get("reasoning_content") or message.get("reasoning")
            if isinstance(reasoning, str) and reasoning and "</think>" not in text:
                return f"<think>{reasoning}</think>{text}"
            return text
    return None


def finished(completion: dict[str, Any]) -> bool:
    """Whether the text ended by itself, not at its length limit."""
    return bool(completion["choices"][0].get("finish_reason") != "length")


def ends_text(chunk: Any) -> bool:
    """Whether a chunk of a stream is the last one with text."""
    match chunk:
        case {"choices": [{"finish_reason": str()}, *_]}:
            return True
    return False


def is_usage_alone(chunk: dict[str, Any]) -> bool:
    """Whether a chunk of a stream says how many tokens there were, and nothing else."""
    return chunk.get("choices") == [] and isinstance(chunk.get("usage"), dict)


def tokens_in(reply: dict[str, Any]) -> dict[str, int]:
    """The tokens of "prompt" and "completion" that a completion or chunk reports, if it does."""
    usage = reply.get("usage")
    counts = {kind: usage.get(f"{kind}_tokens") for kind in TOKENS} if isinstance(usage, dict) else {}
    return {kind: n for kind, n in counts.items() if isinstance(n, int) and 0 <= n <= MOST_TOKENS}
