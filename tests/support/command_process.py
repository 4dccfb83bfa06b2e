"""Real `calibsft` processes, to be left alone, stopped or killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import warm_start

ENVIRONMENT = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
CALIBSFT = [sys.executable, "-m", "calibsft"]


def calibsft(*arguments: object) -> list[str]:
    return [*CALIBSFT, *map(str, arguments)]


def ended(command: list[str]) -> tuple[int, str]:
    """Exit code and standard error of a command that is left alone."""
    if command[:3] == CALIBSFT:
        done = warm_start.run(command[3:], environment=ENVIRONMENT)
    else:
        done = subprocess.run(
            command, env=ENVIRONMENT, capture_output=True, text=True, timeout=300, check=False
        )
    return done.returncode, done.stderr


def finish(command: list[str]) -> str:
    code, said = ended(command)
    assert code == 0, said
    return said


@contextmanager
def under_way(
    command: list[str], reached: Callable[[], bool]
) -> Iterator[warm_start.Started | subprocess.Popen[bytes]]:
    """A process of `command` that has got so far; it is killed in the end if it still runs."""
    child = _start(command)
    try:
        deadline = time.monotonic() + 200
        while not reached():
            assert child.poll() is None, "the process ended before it got so far"
            assert time.monotonic() < deadline, "the process never got so far"
            time.sleep(0.005)
        yield child
    finally:
        child.kill()
        child.wait()


def kill_when(command: list[str], reached: Callable[[], bool]) -> None:
    """Start `command`, wait until it has got so far, and kill it without warning."""
    with under_way(command, reached) as child:
        child.send_signal(signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL


def _start(command: list[str]) -> warm_start.Started | subprocess.Popen[bytes]:
    if command[:3] == CALIBSFT:
        return warm_start.Started(command[3:], environment=ENVIRONMENT)
    return subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
