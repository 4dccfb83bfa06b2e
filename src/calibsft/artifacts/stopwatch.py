"""The time, the processor time and the peak memory of a stage, over all parts of an interrupted stage.

A killed process cannot write at its end, so the figures are written during the work. They are not part of the result: a
file that cannot be read or written never stops the work.
"""

import json
import resource
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

from calibsft.artifacts.writing import write_text

# A killed part loses at most this many seconds of its time.
BEAT_SECONDS = 1.0
FIGURES = ("wall_seconds", "cpu_seconds", "peak_memory_mb")


class Stopwatch:
    """Adds this part of the work to the earlier ones in the file `path`; inside `with`, the file is kept up to date."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._before = _recorded(path)
        self._began, self._cpu_began = time.monotonic(), _cpu_seconds()
        self._ended = threading.Event()
        self._beats = threading.Thread(target=self._beat, daemon=True)

    @property
    def cost(self) -> dict[str, float]:
        """The times and memory of all parts so far."""
        seconds = self._before["wall_seconds"] + time.monotonic() - self._began
        busy = self._before["cpu_seconds"] + _cpu_seconds() - self._cpu_began
        memory = max(self._before["peak_memory_mb"], _peak_memory_mb())
        return {"wall_seconds": round(seconds, 3), "cpu_seconds": round(busy, 3), "peak_memory_mb": memory}

    def __enter__(self) -> Self:
        self._beats.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._ended.set()
        self._beats.join()
        self._keep()

    def _beat(self) -> None:
        while not self._ended.wait(BEAT_SECONDS):
            self._keep()

    def _keep(self) -> None:
        with suppress(Exception):
            write_text(self._path, json.dumps(self.cost) + "\n")


def _recorded(path: Path) -> dict[str, float]:
    """The times and memory of earlier parts; zeros if there are none or the file is damaged."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        found = {"cpu_seconds": 0.0, **json.loads(path.read_text(encoding="utf-8"))}
        return {name: float(found[name]) for name in FIGURES}
    return dict.fromkeys(FIGURES, 0.0)


def _cpu_seconds() -> float:
    """Processor time of this process, and of those that it started and that have ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def _peak_memory_mb() -> float:
    """The most memory that this process has used so far, in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1024**2 if sys.platform == "darwin" else 1024), 1)
