"""Programs that end with the one that started them."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from types import FrameType

import pytest

from calibsft import supervised


class Signalled(Exception):
    pass


def raise_it(number: int, frame: FrameType | None) -> None:
    raise Signalled


@pytest.fixture
def signals_go_to_another_thread() -> Iterator[None]:
    """As the system may do: the main thread learns of a signal only when it runs again."""
    before = signal.signal(signal.SIGUSR1, raise_it)
    over = threading.Event()
    other = threading.Thread(target=over.wait)
    other.start()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    try:
        yield
    finally:
        over.set()
        other.join()
        signal.signal(signal.SIGUSR1, before)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])


@pytest.mark.usefixtures("signals_go_to_another_thread")
def test_a_wait_ends_with_a_signal_that_another_thread_was_given() -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(20)"])
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGUSR1)).start()
    try:
        with pytest.raises(Signalled):
            supervised.wait(process)
        assert process.poll() is None, "not only once the process had ended by itself"
    finally:
        process.kill()
        process.wait()


def test_a_wait_gives_the_exit_code() -> None:
    assert supervised.wait(subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])) == 3
