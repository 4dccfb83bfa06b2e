"""Progress with rate and time left: a live line on a terminal, elsewhere a plain line every few seconds.

Writes to standard error only, so that `--json` on standard output stays clean.
"""

import os
import sys
import time
from collections.abc import Callable
from typing import Self, TextIO

from calibsft.errors import InputError
from calibsft.text import printable

# A launcher numbers the processes that share one piece of work; only the first one prints and writes files.
# A RANK without other processes means nothing: schedulers export one.
FIRST_PROCESS = os.environ.get("WORLD_SIZE", "1") == "1" or os.environ.get("RANK", "0") == "0"
# Whether no other process prints to the terminal; two live lines would overwrite each other.
ALONE = True
PLAIN_INTERVAL = 10.0
LIVE_INTERVAL = 0.2


class Progress:
    """Counts finished work and shows its rate and the time left.

    Parameters
    ----------
    total : units of work in all. An earlier run finished `done` of them; they do not count in the rate.
    unit : the unit's name in the plural, for example "responses".
    """

    def __init__(
        self, label: str, total: int, unit: str, done: int = 0, stream: TextIO | None = None
    ) -> None:
        self.label, self.total, self.unit = label, total, unit
        self.done = self._start = done
        self._tokens = 0
        self._note = ""
        self._stream = stream or sys.stderr
        self._live = ALONE and self._stream.isatty()
        self._began = self._shown = time.monotonic()
        self._shown_done = done

    def __enter__(self) -> Self:
        if self._start and FIRST_PROCESS:
            print(
                f"{self.label}: {self._start:,} of {self.total:,} {self.unit} were done before",
                file=self._stream,
            )
        return self

    def __exit__(self, *exception: object) -> None:
        if self.done > self._start:
            if self._live or self.done > self._shown_done:
                self._show()
            if self._live:
                print(file=self._stream)

    def advance(self, count: int, tokens: int = 0, note: str = "") -> None:
        """Count `count` more finished units and their tokens; show the state if the last line is old enough."""
        self.done += count
        self._tokens += tokens
        self._note = note
        interval = LIVE_INTERVAL if self._live else PLAIN_INTERVAL
        if time.monotonic() - self._shown >= interval:
            self._show()

    def counter(self) -> Callable[[int], None]:
        """A callback for one part of the work: takes how many units of that part are finished so far."""
        before = self.done
        return lambda finished: self.advance(before + finished - self.done)

    def _show(self) -> None:
        self._shown, self._shown_done = time.monotonic(), self.done
        if not FIRST_PROCESS:
            return
        line = self.line(self._shown - self._began)
        end, start = ("", "\r\x1b[2K") if self._live else ("\n", "")
        print(start + line, end=end, file=self._stream, flush=True)

    def line(self, seconds: float) -> str:
        """The state after `seconds` of work, as one line."""
        rate = (self.done - self._start) / max(seconds, 1e-9)
        left = (self.total - self.done) / rate if rate else 0.0
        parts = [f"{self.label}: {self.done:,}/{self.total:,} {self.unit}", f"{rate:,.1f}/s"]
        if self._tokens:
            parts.append(f"{self._tokens / max(seconds, 1e-9):,.0f} tokens/s")
        parts.append(f"{clock(left)} left" if self.done < self.total else f"in {clock(seconds)}")
        if self._note:
            parts.append(self._note)
        return ", ".join(parts)


def clock(seconds: float) -> str:
    """Seconds as 1:05 or 2:03:04."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute}:{second:02d}"


def require_one_process(command: str) -> None:
    """Refuse several processes of a launcher for work that they cannot share."""
    processes = os.environ.get("WORLD_SIZE", "1")
    if processes != "1":
        raise InputError(
            f"calibsft {command} works in one process and a launcher has started {processes} (WORLD_SIZE); start it"
            " without the launcher, which is for calibsft sft and calibsft rl"
        )


def info(text: str) -> None:
    """Print one line for the person who watches."""
    if FIRST_PROCESS:
        print(printable(text, keep="\n"), file=sys.stderr, flush=True)


def warn(text: str) -> None:
    """Print one line about something that works but may be wrong."""
    info(f"warning: {text}")
