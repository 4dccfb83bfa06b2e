"""API keys: from the environment to the server alone. No message shows one, or the server's text where that does."""

import os

from calibsft.errors import InputError
from calibsft.text import printable

COMMON_KEY = "OPENAI_API_KEY"
NO_KEY = "none"
MAX_QUOTE = 200
PIECE = 6


def key_from(*names: str) -> str:
    """The key in the first of these environment variables that is set, or `NO_KEY`."""
    name = next((name for name in names if os.environ.get(name, "").strip()), None)
    key = os.environ[name].strip() if name else NO_KEY
    if not (key.isascii() and key.isprintable()):
        raise InputError(f"the key in {name} holds characters that no key has; set it again")
    return key


def quoted(body: object, key: str) -> str:
    """A server's message about a refusal, after a colon; empty if it contains any part of the key."""
    text = body.get("message") or body.get("detail") if isinstance(body, dict) else body
    if not isinstance(text, str) or not text.strip():
        return ""
    text = " ".join(printable(text).split())
    return "" if key != NO_KEY and _shows(key, text) else f": {text}"[:MAX_QUOTE]


def _shows(key: str, text: str) -> bool:
    """Whether the text contains a piece of the key, forwards or backwards."""
    pieces = (side[i : i + PIECE] for side in (key, key[::-1]) for i in range(max(1, len(key) - PIECE + 1)))
    return any(piece in text for piece in pieces)
