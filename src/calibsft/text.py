"""Foreign text made safe to show and to compare: a terminal or a page must never obey what a model or a file says."""

import re
import unicodedata

SHOWN_CHARACTERS = 200
_INVISIBLE = ("Cc", "Cf", "Cs")
# Of these a text can hold a hidden message, in characters that have a category of visible ones.
_VARIATION_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")


def printable(text: str, keep: str = "") -> str:
    """`text` with control, bidirectional and other invisible characters replaced by spaces, save `keep`."""
    return "".join(char if char.isprintable() or char in keep else " " for char in text)


def shortened(text: str) -> str:
    """`text` as far as a message shows it."""
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"


def visible(text: str) -> str:
    """`text` without control and format characters and surrogates; white space stays as it is."""
    if text.isprintable():
        return text
    return "".join(c for c in text if c.isspace() or unicodedata.category(c) not in _INVISIBLE)


def visible_line(text: str) -> str:
    """`text` on one line, without control, bidirectional, zero-width and other invisible characters."""
    return " ".join(_VARIATION_SELECTORS.sub("", visible(text)).split())
