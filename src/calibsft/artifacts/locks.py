"""One command at a time in a folder.

The operating system releases a lock when its process ends in any way. The file `.lock` stays: the lock on it counts, not
its existence. It names the holder of the lock, for the error of the process that is refused.
"""

import errno
import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from calibsft.artifacts.writing import make_folder
from calibsft.errors import InputError
from calibsft.progress import warn

LOCK = ".lock"
RETRY_SECONDS = 0.1
HOLDER_BYTES = 1000
# The errors of file systems without locks, for example Lustre mounted without them.
WITHOUT_LOCKS = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK}

_held: set[int] = set()


@contextmanager
def locked(folder: Path, patience: float = 0.0) -> Iterator[None]:
    """Hold the lock of `folder`, which is created if it does not exist.

    If another process still holds it after `patience` seconds, refuse and name that process.
    """
    make_folder(folder)
    handle = _open(folder / LOCK)
    try:
        _acquire(handle, folder, patience)
        _held.add(handle)
        _write(handle, _myself())
        try:
            yield
        finally:
            _write(handle, b"")
    finally:
        _held.discard(handle)
        os.close(handle)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written ({error.strerror}); choose another folder with --out"
        ) from error


def _acquire(handle: int, folder: Path, patience: float) -> None:
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError as error:
            if time.monotonic() >= deadline:
                raise InputError(
                    f"{folder}: {_holder(handle)}; wait until it has ended, or end it, and run the same command again"
                ) from error
        except OSError as error:
            if error.errno not in WITHOUT_LOCKS:
                raise
            warn(f"{folder}: its file system has no locks, so do not start a second command on this folder")
            return
        time.sleep(RETRY_SECONDS)


def _myself() -> bytes:
    since = datetime.now(UTC).isoformat(sep=" ", timespec="seconds")
    return json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": since}).encode()


def _write(handle: int, content: bytes) -> None:
    with suppress(OSError):  # the lock holds on a full disk too
        os.ftruncate(handle, 0)
        os.pwrite(handle, content, 0)


def _holder(handle: int) -> str:
    """Who holds the lock; a process that just took it may not have written its name yet."""
    try:
        who = json.loads(os.pread(handle, HOLDER_BYTES, 0))
        return f"process {who['pid']} on {who['host']} has worked in it since {who['since']}"
    except (ValueError, KeyError, TypeError):
        return "another process works in it"


def _close_in_child() -> None:
    """A forked child must not hold its parent's locks: it may outlive a killed parent."""
    for handle in _held:
        os.close(handle)
    _held.clear()


os.register_at_fork(after_in_child=_close_in_child)
