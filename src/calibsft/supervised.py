"""Programs that end with the program that started them, even if that is killed.

`started` runs a command under `python -m calibsft.supervised`, which waits for it and ends it, with everything that it has
started, as soon as its own parent is gone. Light, since it is imported for nothing else.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO

CHECK_SECONDS = 1.0
# A launcher waits half a minute for its own processes before it kills them.
END_SECONDS = 40.0


def started(
    command: Sequence[str], environment: Mapping[str, str] | None = None, output: IO[bytes] | None = None
) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own, so that Ctrl-C in the terminal comes to the caller alone."""
    words = [sys.executable, "-m", "calibsft.supervised", *command]
    return subprocess.Popen(words, env=environment, stdout=output, stderr=output, start_new_session=True)


def wait(process: subprocess.Popen[bytes]) -> int:
    """The exit code of a process, once it has ended.

    A wait without a limit would miss Ctrl-C where the system gives the signal to another thread of this process: Python
    raises it in the main thread, but only once that runs again.
    """
    while True:
        with suppress(subprocess.TimeoutExpired):
            return process.wait(CHECK_SECONDS)


def end(process: subprocess.Popen[bytes]) -> None:
    """End what `started` has started, politely and then by force."""
    for number, patience in ((signal.SIGTERM, END_SECONDS), (signal.SIGKILL, None)):
        if process.poll() is not None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(patience)


def main() -> None:
    parent = os.getppid()
    for number in (signal.SIGTERM, signal.SIGINT):
        # The child gets the signal too, and this process must outlive it. Ignored signals would stay ignored in the child.
        signal.signal(number, lambda *_: None)
    child = subprocess.Popen(sys.argv[1:])
    while True:
        with suppress(subprocess.TimeoutExpired):
            code = child.wait(CHECK_SECONDS)
            sys.exit(code if code >= 0 else 128 - code)
        if os.getppid() != parent:
            _end_with(child)


def _end_with(child: subprocess.Popen[bytes]) -> None:
    """End the whole session, this process last."""
    child.terminate()
    with suppress(subprocess.TimeoutExpired):
        child.wait(END_SECONDS)
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    main()
