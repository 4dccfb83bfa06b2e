"""One grading process: how the pool talks to it, and what runs inside it.

A worker is a fresh interpreter that runs `serve`, not a `multiprocessing` child: it never re-imports the
user's main script, so `grade` works from any script or notebook. Messages are JSON bytes, never pickles.
Does not decide what to grade or when an item has taken too long: that is `pool`.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection

from calibsft.schema import Grade
from calibsft.verify.grader import GradeItem

START_SECONDS = 120.0
_MEGABYTE = 2**20


@dataclass(frozen=True, slots=True)
class Reply:
    """What a worker says: a grade, or None for "ready"; and whether it can take another item."""

    grade: Grade | None
    healthy: bool


class Worker:
    """The parent's end of a process that is starting, idle, or busy with `item` until `deadline`."""

    def __init__(self, seconds: float, memory_mb: int) -> None:
        self.pipe, theirs = Pipe()
        self.seconds = seconds
        self.ready = False
        self.item: GradeItem | None = None
        self.deadline = time.monotonic() + START_SECONDS
        code = f"from calibsft.verify.worker import serve; serve({theirs.fileno()}, {seconds!r}, {memory_mb})"
        # -P: a file in the working directory must not shadow a module.
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", code],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        theirs.close()

    def send(self, item: GradeItem) -> bool:
        """Hand over an item and start its clock; False if the process died while idle."""
        try:
            self.pipe.send_bytes(json.dumps([item.kind, item.golds, item.answer, item.tolerance]).encode())
        except OSError:
            return False
        self.item, self.deadline = item, time.monotonic() + self.seconds
        return True

    def receive(self) -> Reply | None:
        """The next message, or None if the process is gone."""
        try:
            grade, healthy = json.loads(self.pipe.recv_bytes())
        except (EOFError, OSError):
            return None
        return Reply(Grade(grade) if grade else None, healthy)

    def kill(self) -> int:
        """End the process at once and return its exit code."""
        self.process.kill()
        self.pipe.close()
        return self.process.wait()


def serve(descriptor: int, seconds: float, memory_mb: int) -> None:
    """Answer grading requests until the pipe closes. Runs in the worker process only."""
    from calibsft.verify import GRADERS

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(ValueError, OSError):  # not every system can limit the address space
        resource.setrlimit(resource.RLIMIT_AS, (memory_mb * _MEGABYTE, memory_mb * _MEGABYTE))
    for grader in GRADERS.values():
        if grader.isolated:
            grader.prepare()
    pipe = Connection(descriptor)
    pipe.send_bytes(json.dumps([None, True]).encode())
    # From here on, noise on stderr would be model text.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    with suppress(EOFError, OSError):
        while True:
            kind, golds, answer, tolerance = json.loads(pipe.recv_bytes())
            grade = _grade(GradeItem(kind, tuple(golds), answer, tolerance), seconds)
            healthy = _memory_used() < memory_mb * _MEGABYTE * 3 // 4
            pipe.send_bytes(json.dumps([grade, healthy]).encode())


def _grade(item: GradeItem, seconds: float) -> Grade:
    from calibsft.verify import GRADERS

    # If the parent dies, nobody stops a runaway item; an unhandled SIGALRM does.
    signal.setitimer(signal.ITIMER_REAL, 2 * seconds + 1)
    try:
        return GRADERS[item.kind].grade(item)
    except Exception:  # one bad item must not cost the next one its worker
        return Grade.ERROR
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _memory_used() -> int:
    """Address space in bytes, so that what one item left behind does not starve the next; 0 if unknown."""
    try:
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 0
