"""Foreign text made safe to show: a terminal or a page must never obey what a model or a file says."""


def printable(text: str, keep: str = "") -> str:
    """`text` with control, bidirectional and other invisible characters replaced by spaces, save `keep`."""
    return "".join(char if char.isprintable() or char in keep else " " for char in text)
