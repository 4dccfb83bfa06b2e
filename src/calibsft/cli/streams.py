"""Standard output and error, whatever they lead to: a terminal that knows only ASCII, a full disk, a closed pipe."""

import codecs
import io
import os
import sys
from contextlib import suppress

# Signs that tables and sentences use, for terminals that do not have them; any other is shown as its number.
ALIKE = {
    "█": "#", "…": "...", "–": "-", "−": "-", "±": "+-", "→": "->", "↑": "^", "↓": "v", "·": "-", "≤": "<=", "≥": ">=",
    "∇": "grad ", "π": "pi", "ρ": "rho", "Σ": "Sum", "δ": "delta", "ε": "epsilon", "λ": "lambda", "Δ": "Delta", "²": "^2", "“": '"', "”": '"', "’": "'",
}  # fmt: skip
UNKNOWN_SIGNS = "calibsft-alike"


def prepare_streams() -> None:
    """Let neither a closed stream nor a character that the terminal does not know end a command."""
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()
    codecs.register_error(UNKNOWN_SIGNS, _alike)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=UNKNOWN_SIGNS)


def _nowhere() -> io.TextIOWrapper:
    return open(os.devnull, "w", encoding="utf-8")


def _alike(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    signs = error.object[error.start : error.end]
    shown = (ALIKE.get(sign) or sign.encode("ascii", "backslashreplace").decode() for sign in signs)
    return "".join(shown), error.end


def give_up_output() -> None:
    """Forget what could not be printed; Python would otherwise try again as it ends, and complain."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                os.dup2(nowhere, stream.fileno())
