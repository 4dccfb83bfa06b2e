"""What servers send, in any of the shapes that they have: completions, chunks and errors.

Nothing here trusts a server: what does not have the right shape is None or false. Does not judge what a model says.
"""

from typing import Any

from calibsft.gateway.strict_json import read_json

DONE = "[DONE]"


def json_of(text: str | bytes) -> Any:
    """What a text holds, None if it is not JSON."""
    try:
        return read_json(text)
    except ValueError:
        return None


def text_of(completion: dict[str, Any]) -> str | None:
    """The whole text of the first choice, None if it is no completion.

    A server with a reasoning parser takes the reasoning out of the text, and sends no text where there is nothing else;
    it is put back where it was.
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
    """Whether the text ended by itself, rather than at a limit."""
    return bool(completion["choices"][0].get("finish_reason") != "length")


def ends_text(chunk: Any) -> bool:
    """Whether a chunk of a stream is the last one with text."""
    match chunk:
        case {"choices": [{"finish_reason": str()}, *_]}:
            return True
    return False


def is_error(chunk: Any) -> bool:
    """Whether an error stands in the place of a chunk."""
    return isinstance(chunk, dict) and chunk.get("error") is not None


def error_in(body: Any) -> object:
    """What the body of an error holds."""
    return body.get("error", body) if isinstance(body, dict) else body
