"""The command line: one thin file per command, listed in `app`. Ctrl-C is handled here, since it may come during imports."""

import signal
import sys

from calibsft.interrupts import INTERRUPTED, WORDS, interrupt


def main() -> None:
    """Entry point. Imports the commands inside, so that neither Ctrl-C nor an unsupported system shows a traceback."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # else the caller has set its own handler
        signal.signal(signal.SIGINT, interrupt)
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


__all__ = ["main"]
