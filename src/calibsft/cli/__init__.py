"""The command line: one thin file per command, listed in `app`; and Ctrl-C, which may come before any of them is there."""

import os
import signal
import sys
from types import FrameType

INTERRUPTED = 130
WORDS = "interrupted; run the same command again to go on"
STANDARD_ERROR = 2
IMPORTING = "<frozen importlib._bootstrap>"


def main() -> None:
    """Entry point; the commands are imported inside, so that neither Ctrl-C nor another system shows a traceback."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # else whoever started the command has asked for something else
        signal.signal(signal.SIGINT, _interrupt)
    try:
        from calibsft.errors import UnsupportedSystem

        try:
            import calibsft.unix  # noqa: F401 - before anything that another system lacks
        except UnsupportedSystem as error:
            print(f"calibsft: {error}", file=sys.stderr)
            sys.exit(2)
        from calibsft.cli.app import main as run

        run()
    except KeyboardInterrupt:
        print(WORDS, file=sys.stderr, flush=True)
        sys.exit(INTERRUPTED)
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """End at once while something is being imported: compiled modules do not survive an exception, and nothing is lost."""
    while frame is not None:
        if frame.f_code.co_filename == IMPORTING:
            os.write(STANDARD_ERROR, f"{WORDS}\n".encode())
            os._exit(INTERRUPTED)
        frame = frame.f_back
    raise KeyboardInterrupt


__all__ = ["main"]
