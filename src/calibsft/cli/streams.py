"""Make standard output and error robust: against terminals with only ASCII, full disks and closed pipes."""

import codecs
import io
import os
import sys
from contextlib import suppress

# Replacements for signs that a terminal does not have; any other sign is shown as its number.
REPLACEMENTS = {
    "█": "#", "…": "...", "–": "-", "−": "-", "±": "+-", "→": "->", "↑": "^", "↓": "v", "·": "-", "≤": "<=", "≥": ">=",
    "∇": "grad ", "π": "pi", "ρ": "rho", "Σ": "Sum", "δ": "delta", "ε": "epsilon", "λ": "lambda", "Δ": "Delta", "²": "^2", "“": '"', "”": '"', "’": "'",
}  # fmt: skip
UNKNOWN_SIGNS = "calibsft-replace"


def prepare_streams() -> None:
    """Keep commands alive if a stream is closed or the terminal lacks a character."""
    sys.stdout = sys.stdout or _null_stream()
    sys.stderr = sys.stderr or _null_stream()
    codecs.register_error(UNKNOWN_SIGNS, _replacement)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=UNKNOWN_SIGNS)


def _null_stream() -> io.TextIOWrapper:
    return open(os.devnull, "w", encoding="utf-8")


def _replacement(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    signs = error.object[error.start : error.end]
    shown = (REPLACEMENTS.get(sign) or sign.encode("ascii", "backslashreplace").decode() for sign in signs)
    return "".join(shown), error.end


def discard_output() -> None:
    """Drop what could not be printed; else Python tries again at exit and shows an error."""
    with suppress(OSError):
        null = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                os.dup2(null, stream.fileno())
