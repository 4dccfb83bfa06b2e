"""How long a stage worked and the most memory it held, over all parts of an interrupted stage.

A killed process writes nothing at its end, so the figures are written while it works. Losing them would lose no result:
a file that cannot be read or written never stops the work.
"""

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

# A killed part loses at most so many seconds of its time.
BEAT_SECONDS = 1.0


class Stopwatch:
    """Adds this part of the work to what the file says of earlier ones; inside `with`, the file is kept up to date.

    Parameters
    ----------
    path
        Where the figures are kept.
    write
        Writes the text of a file so that it is there whole or not at all.
    memory
        The most memory that this process has held so far, in MB.
    """

    def __init__(self, path: Path, write: Callable[[Path, str], None], memory: Callable[[], float]) -> None:
        self._path, self._write, self._memory = path, write, memory
        self._before = _recorded(path)
        self._began = time.monotonic()
        self._ended = threading.Event()
        self._beats = threading.Thread(target=self._beat, daemon=True)

    @property
    def cost(self) -> dict[str, float]:
        """What all parts took together so far."""
        seconds = self._before["wall_seconds"] + time.monotonic() - self._began
        memory = max(self._before["peak_memory_mb"], self._memory())
        return {"wall_seconds": round(seconds, 3), "peak_memory_mb": memory}

    def __enter__(self) -> Self:
        self._beats.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._beats.join()
        self._keep()

    def _beat(self) -> None:
        while not self._ended.wait(BEAT_SECONDS):
            self._keep()

    def _keep(self) -> None:
        with suppress(Exception):
            self._write(self._path, json.dumps(self.cost) + "\n")


def _recorded(path: Path) -> dict[str, float]:
    """What earlier parts took; nothing where there was none or the file is damaged."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        found = json.loads(path.read_text(encoding="utf-8"))
        return {name: float(found[name]) for name in ("wall_seconds", "peak_memory_mb")}
    return {"wall_seconds": 0.0, "peak_memory_mb": 0.0}
