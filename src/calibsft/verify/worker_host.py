"""The pool's handles of its processes: the worker host, which starts and ends workers, and the workers.

This code runs in the user's process and talks to `calibsft.verify.worker` in the others. The host is the parent of
all workers. Only a parent can end a worker and read its exit code without mistaking a reused pid for it. When the
user's process ends in any way, the host sees its socket close and ends its workers and itself. Does not decide who
grades what, or when an item has taken too long: that is `pool`.
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import Pipe

from calibsft.errors import InputError
from calibsft.schema import Grade
from calibsft.verify.grader import GradeItem
from calibsft.verify.worker import MEGABYTE, NEW_WORKER, WORD, wall_clock_limit

_START_SECONDS = 120.0
_END_SECONDS = 10.0
_CODE = (
    "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN);"
    " from calibsft.verify.worker import host_workers; host_workers({}, {!r}, {})"
)


class HostLostError(Exception):
    """The host died, was killed, or does not answer. Its workers cannot be reached any more."""


class Worker:
    """A process that is idle, or busy with the first of `items` until `deadline`."""

    def __init__(self, host: "WorkerHost", seconds: float) -> None:
        self.pipe, theirs = Pipe()
        with theirs:
            self.pid = host.fork(theirs.fileno())
        self.items: deque[GradeItem] = deque()
        self.deadline = 0.0
        self._patience = wall_clock_limit(seconds)

    def send(self, items: Sequence[GradeItem]) -> bool:
        """Send items to an idle worker and start the clock of the first one; False if the process is dead."""
        texts = [[item.kind, item.golds, item.answer, item.tolerance, item.question] for item in items]
        try:
            self.pipe.send_bytes(json.dumps(texts).encode())
        except OSError:
            return False
        self.items.extend(items)
        self.deadline = time.monotonic() + self._patience
        return True

    def receive(self) -> tuple[Grade, bool] | None:
        """The next grade, and whether the worker can take another item; None if the process is dead.

        Starts the clock of the next item.
        """
        try:
            grade, healthy = json.loads(self.pipe.recv_bytes())
        except (EOFError, OSError):
            return None
        self.deadline = time.monotonic() + self._patience
        return Grade(grade), healthy


class WorkerHost:
    """A process that has imported the graders and forks workers; call `wait_until_ready` before the first fork."""

    def __init__(self, seconds: float, memory_mb: int) -> None:
        self._memory_mb = memory_mb
        self._ready = False
        self._control, theirs = socket.socketpair()
        self._control.settimeout(_START_SECONDS)
        with theirs:
            # -P: a file in the working directory must not shadow a module. The hash seed is fixed because the
            # order of sets steers computer algebra, and verdicts must be reproducible.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _CODE.format(theirs.fileno(), seconds, memory_mb)],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
                    "PYTHONHASHSEED": "0",
                },
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until_ready(self) -> None:
        """Return when the imports are done; raise `InputError` if no worker could grade with these limits."""
        if self._ready:
            return
        try:
            needed = self._receive() // MEGABYTE
        except HostLostError:
            raise InputError(
                f"the grading process ended with code {self._join(_END_SECONDS)} before it was ready;"
                " see its message above"
            ) from None
        if needed > self._memory_mb * 3 // 4:
            raise InputError(
                f"a grading worker needs {needed} MiB before its first item, too near its limit of"
                f" {self._memory_mb} MiB; raise memory_mb to {2 * needed} or more"
            )
        self._ready = True

    def fork(self, pipe: int) -> int:
        """Start a worker that listens on `pipe` and return its pid."""
        return self._ask(NEW_WORKER, [pipe])

    def end(self, worker: Worker) -> int:
        """End a worker, if it still runs, and return its exit code: minus the signal's number."""
        worker.pipe.close()
        return self._ask(worker.pid, [])

    def close(self) -> None:
        """End all workers and the host itself."""
        with suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)  # closing is not enough if a forked child has a copy
        self._control.close()
        # A host that is not ready has no workers, and would finish its imports first.
        self._join(_END_SECONDS if self._ready else 0.0)

    def _join(self, seconds: float) -> int:
        """Wait for the process to end, kill it after `seconds`, and return its exit code."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def _ask(self, request: int, pipes: list[int]) -> int:
        try:
            socket.send_fds(self._control, [WORD.pack(request)], pipes)
        except OSError as error:
            raise HostLostError from error
        return self._receive()

    def _receive(self) -> int:
        try:
            answer = self._control.recv(WORD.size)
        except OSError as error:
            raise HostLostError from error
        if not answer:
            raise HostLostError
        return int(WORD.unpack(answer)[0])
