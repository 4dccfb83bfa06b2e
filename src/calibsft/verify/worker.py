"""What runs inside the grading processes: the worker host, and the workers that it forks.

The host is a new interpreter that runs `host_workers`. It is not a `multiprocessing` child, so it does not import the
user's main script again, and `grade` works from any script or notebook. It imports the graders once and then forks
workers within milliseconds. A worker runs `serve`; an unhandled signal ends it when an item has used up its processor
time. Messages are JSON bytes and machine words, never pickles. Does not decide what to grade, or what the end of a
worker means: that is `pool`.
"""

import gc
import json
import os
import re
import resource
import signal
import socket
import struct
import sys
from contextlib import suppress
from multiprocessing.connection import Connection

from calibsft.schema import Grade
from calibsft.verify.grader import GradeItem

# A request to the host is one word: NEW_WORKER with the worker's end of a pipe, or the pid of a worker to end.
# The answer is one word too: the new worker's pid, or the exit code, which is minus a signal's number.
WORD = struct.Struct("<q")
NEW_WORKER = 0
MEGABYTE = 2**20


def host_workers(descriptor: int, seconds: float, memory_mb: int) -> None:
    """Fork and end workers on request until the socket closes. Runs only in a process of its own.

    Its first word, sent when the imports are done, is the size of its address space, with which every worker starts.
    """
    from calibsft.verify import GRADERS

    _reset_signals()
    for grader in GRADERS.values():
        if grader.isolated:
            grader.prepare()
    gc.freeze()  # imported objects are never collected, and stay shared with the workers
    control = socket.socket(fileno=descriptor)
    with suppress(OSError):
        control.sendall(WORD.pack(_address_space()[0]))
        # From here on, libraries could write model text to stderr.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
        _answer_requests(control, seconds, memory_mb)
    os._exit(0)


def _reset_signals() -> None:
    """Ignore Ctrl-C, which the parent handles, and undo the handlers that were inherited from it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for lethal in (signal.SIGPROF, signal.SIGALRM, signal.SIGCHLD):
        signal.signal(lethal, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _answer_requests(control: socket.socket, seconds: float, memory_mb: int) -> None:
    workers: set[int] = set()
    try:
        while True:
            request, pipes, _, _ = socket.recv_fds(control, WORD.size, 1)
            if not request:
                return
            (pid,) = WORD.unpack(request)
            if pid == NEW_WORKER:
                answer = _fork_worker(control, pipes[0], seconds, memory_mb)
                workers.add(answer)
            else:
                workers.remove(pid)
                answer = _end(pid)
            control.sendall(WORD.pack(answer))
    finally:
        for pid in workers:
            _end(pid)


def _fork_worker(control: socket.socket, pipe: int, seconds: float, memory_mb: int) -> int:
    if pid := os.fork():
        os.close(pipe)
        return pid
    try:
        control.close()
        serve(pipe, seconds, memory_mb)
    finally:
        os._exit(0)


def _end(pid: int) -> int:
    # The pid belongs to the worker until it is waited for. The exit code tells the first cause of its end.
    os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def serve(descriptor: int, seconds: float, memory_mb: int) -> None:
    """Grade lists of items, with one reply per item, until the pipe closes. Runs only in a forked worker."""
    limit = memory_mb * MEGABYTE
    with suppress(ValueError, OSError):  # not every system can limit the address space
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    pipe = Connection(descriptor)
    healthy = True
    with suppress(EOFError, OSError):
        while healthy:
            for kind, golds, answer, tolerance, question in json.loads(pipe.recv_bytes()):
                item = GradeItem(kind, tuple(golds), answer, tolerance, question)
                grade, healthy = _grade_within(item, seconds, limit)
                pipe.send_bytes(json.dumps([grade, healthy]).encode())
                if not healthy:
                    break


def _grade_within(item: GradeItem, seconds: float, limit: int) -> tuple[Grade, bool]:
    """The grade, and whether the worker has enough memory left for another item."""
    before, _ = _address_space()
    _set_alarms(seconds)
    grade = _grade(item)
    _set_alarms(0.0)
    after, peak = _address_space()
    greedy = peak - before > limit // 4
    if greedy and grade is not Grade.CORRECT:
        # A library may have reported a failed allocation as "not equal".
        grade = Grade.ERROR
    return grade, not greedy and after < limit * 3 // 4


def _grade(item: GradeItem) -> Grade:
    from calibsft.verify import GRADERS

    try:
        return GRADERS[item.kind].grade(item)
    except Exception:  # a bad item must not end the worker of the next one
        return Grade.ERROR


def _set_alarms(seconds: float) -> None:
    """Let the kernel end this process after `seconds` of its processor time, even inside C code; 0 for never.

    The second alarm ends an item that sleeps, where the pool is gone and cannot end it.
    """
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, 2 * wall_clock_limit(seconds) if seconds else 0.0)


def wall_clock_limit(seconds: float) -> float:
    """The wall-clock limit of an item with `seconds` of processor time; long enough for a busy machine."""
    return max(10.0, 10 * seconds)


def _address_space() -> tuple[int, int]:
    """Bytes in use now, and the most so far; zeros where the system does not report them."""
    try:
        with open("/proc/self/status", "rb") as file:
            found = dict(re.findall(rb"^(VmSize|VmPeak):\s+(\d+) kB", file.read(), re.MULTILINE))
        return int(found[b"VmSize"]) * 1024, int(found[b"VmPeak"]) * 1024
    except (OSError, KeyError):
        return 0, 0
