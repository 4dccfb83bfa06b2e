"""The command line: one thin file per command, listed in `app`. Ctrl-C is handled here, since it may come during imports."""

import os
import signal
import sys
import threading
from types import FrameType

INTERRUPTED = 130
WORDS = "interrupted; run the same command again to go on"
STANDARD_ERROR = 2
IMPORTING = "<frozen importlib._bootstrap>"
AGAIN_SECONDS = 0.05


def main() -> None:
    """Entry point. Imports the commands inside, so that neither Ctrl-C nor an unsupported system shows a traceback."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # else the caller has set its own handler
        signal.signal(signal.SIGINT, _interrupt)
    try:
        from calibsft.errors import UnsupportedSystem

        try:
            import calibsft.unix  # noqa: F401 - before any module that other systems lack
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
    """Raise `KeyboardInterrupt`, but not where it would do harm or be lost.

    During an import, exit at once: compiled modules do not survive an exception, and no work is lost. In a `__del__`, where
    Python ignores exceptions, ask again a moment later.
    """
    while frame is not None:
        if frame.f_code.co_filename == IMPORTING:
            os.write(STANDARD_ERROR, f"{WORDS}\n".encode())
            os._exit(INTERRUPTED)
        if frame.f_code.co_name == "__del__":
            again = threading.Timer(AGAIN_SECONDS, os.kill, (os.getpid(), signal.SIGINT))
            again.daemon = True
            again.start()
            return
        frame = frame.f_back
    raise KeyboardInterrupt


__all__ = ["main"]
