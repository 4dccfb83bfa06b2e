"""How a response is written, read, and split into tokens."""

from calibsft.responses.formats import FORMATS, Format, get_format, messages
from calibsft.responses.parse import Parsed, Reason, parse, render, replace_confidence

__all__ = [
    "FORMATS",
    "Format",
    "Parsed",
    "Reason",
    "get_format",
    "messages",
    "parse",
    "render",
    "replace_confidence",
]
