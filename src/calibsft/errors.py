"""The one exception that stands for bad input.

Everything a user can mend raises `InputError` with one sentence that says what is wrong, where, and
what to do. The command line prints that sentence and exits with 2; any other exception is a bug.
"""

from difflib import get_close_matches
from typing import NoReturn


class InputError(ValueError):
    """Bad input, explained in one sentence that names the remedy."""


def unknown_name(kind: str, name: str, known: list[str]) -> NoReturn:
    """Refuse `name`, offering the nearest known one and the whole list."""
    near = get_close_matches(name, known, n=1)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    raise InputError(f"unknown {kind} '{name}'{hint} (known: {', '.join(known)})")
