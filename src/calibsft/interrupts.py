"""Ctrl-C: raised as `KeyboardInterrupt`, but not where that would do harm or be lost. Light, since commands set it first."""

import os
import signal
import threading
from collections.abc import Coroutine
from types import FrameType
from typing import Any, TypeVar

INTERRUPTED = 130
WORDS = "interrupted; run the same command again to go on"
STANDARD_ERROR = 2
IMPORTING = "<frozen importlib._bootstrap>"
AGAIN_SECONDS = 0.05

T = TypeVar("T")


def interrupt(number: int, frame: FrameType | None) -> None:
    """The handler of the command line.

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


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run`, whose tasks end in order on Ctrl-C: asyncio sees to that, but only where it finds Python's own handler.

    Raised in the middle of a task, the exception would leave the others without an end, and each would print a traceback.
    """
    import asyncio

    if (
        signal.getsignal(signal.SIGINT) is not interrupt
        or threading.current_thread() is not threading.main_thread()
    ):
        return asyncio.run(work)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return asyncio.run(work)
    finally:
        signal.signal(signal.SIGINT, interrupt)
