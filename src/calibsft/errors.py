"""The one exception that stands for bad input.

Everything a user can fix raises `InputError` with one sentence that says what is wrong, where, and
what to do. The command line prints that sentence and exits with 2; any other exception is a bug, save what
the operating system refused somewhere below a library (`system_refusal`).
"""

import errno
import os
import re
from difflib import get_close_matches
from typing import NoReturn


class InputError(ValueError):
    """Bad input, explained in one sentence that names the remedy."""


class UnsupportedSystem(ImportError):
    """The operating system lacks what calibsft is built on."""


# What ends with some room: a full disk, a used-up quota, a file beyond the largest size.
NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_RUST = re.compile(r"\(os error ([0-9]+)\)")


def system_refusal(error: BaseException | None) -> OSError | None:
    """What the operating system refused, if that is what `error` comes from and nobody has told it yet.

    Libraries wrap it: polars, safetensors and tokenizers, which are written in Rust, leave its number in the text alone.
    """
    while isinstance(error, Exception) and not isinstance(error, InputError):
        if isinstance(error, OSError):
            return error
        if found := _RUST.search(str(error)):
            return OSError(int(found[1]), os.strerror(int(found[1])))
        error = error.__cause__
    return None


def unknown_name(kind: str, name: str, known: list[str]) -> NoReturn:
    """Refuse `name`, offering the nearest known one and the whole list."""
    near = get_close_matches(name, known, n=1)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    raise InputError(f"unknown {kind} '{name}'{hint} (known: {', '.join(known)})")
