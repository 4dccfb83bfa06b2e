"""Whether a program printed what a page shows."""

import re


def shows(shown: str, printed: str, other_digits: bool = False) -> bool:
    """Whether a program printed what is shown, apart from line breaks; `…` stands for anything."""
    plain = skeleton if other_digits else (lambda text: " ".join(text.split()))
    at, whole = 0, plain(printed)
    for part in map(plain, shown.split("…")):
        at = whole.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return True


def skeleton(text: str) -> str:
    """A text without what differs from run to run: numbers, bars, ids and the breaks of its lines."""
    plain = re.sub(r"\b(?=\w*\d)[0-9a-f]{12}\b|[-−+]?\d[\d,]*(\.\d+)?(e[-+]\d+)?( %)?", "N", text)
    return " ".join(re.sub(r"█+", "", re.sub(r"(?<=\s)-(?=\s)", "N", plain)).split())
