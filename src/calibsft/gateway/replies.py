"""Read what servers send: completions and chunks.

Does not trust a server: anything of the wrong shape gives None or False. Does not parse a model's text.
"""

from typing import Any

from calibsft.gateway.strict_json import read_json

DONE = "[DONE]"


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
