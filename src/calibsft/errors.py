"""The exception for bad input.

Everything that a user can fix raises `InputError` with one sentence: what is wrong, where, and what to do. The command
line prints that sentence and exits with 2. Any other exception is a bug, except an error of the operating system inside a
library (`system_refusal`).
"""

import errno
import os
import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import NoReturn


class InputError(ValueError):
    """Bad input, explained in one sentence that names the remedy."""


class UnsupportedSystem(ImportError):
    """The operating system lacks something that calibsft needs."""


# Errors that more space fixes: a full disk, a used-up quota, a file beyond the largest size.
NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_RUST = re.compile(r"\(os error ([0-9]+)\)")


def system_refusal(error: BaseException | None) -> OSError | None:
    """The error of the operating system that caused `error`; None if there is none, or an `InputError` already reports it.

    Libraries wrap it. Those in Rust - polars, safetensors, tokenizers - keep only its number, in their text.
    """
    while isinstance(error, Exception) and not isinstance(error, InputError):
        if isinstance(error, OSError):
            return error
        if found := _RUST.search(str(error)):
            return OSError(int(found[1]), os.strerror(int(found[1])))
        error = error.__cause__
    return None


def unknown_name(kind: str, name: str, known: list[str]) -> NoReturn:
    """Refuse `name`; the error has the nearest known name and the whole list."""
    raise InputError(f"unknown {kind} '{name}'{did_you_mean(name, known)} (known: {', '.join(known)})")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest known one; empty if none is near."""
    near = get_close_matches(name, list(known), n=1)
    return f"; did you mean '{near[0]}'?" if near else ""
