"""Make hostile text safe to show and to compare: it must not control a terminal or a page."""

import re
import unicodedata

SHOWN_CHARACTERS = 200
_INVISIBLE = ("Cc", "Cf", "Cs")
# These can hide a message in a text, although their category is one of visible characters.
_VARIATION_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")


def printable(text: str, keep: str = "") -> str:
    """`text` with control, bidirectional and other invisible characters replaced by spaces, except those in `keep`."""
    return "".join(char if char.isprintable() or char in keep else " " for char in text)


def shortened(text: str) -> str:
    """The beginning of `text` that a message shows."""
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"


def visible(text: str) -> str:
    """`text` without control and format characters and surrogates; white space stays."""
    if text.isprintable():
        return text
    return "".join(c for c in text if c.isspace() or unicodedata.category(c) not in _INVISIBLE)


def visible_line(text: str) -> str:
    """`text` on one line, without control, bidirectional, zero-width and other invisible characters."""
    return " ".join(_VARIATION_SELECTORS.sub("", visible(text)).split())
