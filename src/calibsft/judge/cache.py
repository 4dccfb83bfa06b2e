"""The replies of a judge, in a file that only grows: one JSON line per reply.

A line is written as a whole as soon as the reply is there, so a killed run loses only unfinished requests, and several
processes can share the file. A damaged or foreign line is skipped. Does not know what was asked: the key of a reply is a
hash of that.
"""

import json
from contextlib import suppress
from pathlib import Path

from calibsft.errors import InputError


class VerdictCache:
    """Verdicts by key; kept only in memory if `path` is None."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._verdicts: dict[str, str] = {}
        self._needs_newline = False  # the last line of the file is incomplete
        if path is not None and path.exists():
            self._read(path)

    def get(self, key: str) -> str | None:
        return self._verdicts.get(key)

    def add(self, key: str, verdict: str) -> None:
        """Keep a verdict; it is on disk when this returns."""
        self._verdicts[key] = verdict
        if self._path is not None:
            line = json.dumps({"key": key, "verdict": verdict}) + "\n"
            self._append(self._path, ("\n" + line if self._needs_newline else line).encode())
            self._needs_newline = False

    def _read(self, path: Path) -> None:
        try:
            data = path.read_bytes()
        except OSError as error:
            raise InputError(
                f"{path}: the judge's verdicts cannot be read ({error.strerror or error}); move that file away"
            ) from error
        self._needs_newline = not data.endswith(b"\n") and bool(data)
        for line in data.split(b"\n"):
            with suppress(ValueError, RecursionError):
                match json.loads(line):
                    case {"key": str(key), "verdict": str(verdict)}:
                        # If two processes asked the same, the first reply counts, so that a verdict never changes.
                        self._verdicts.setdefault(key, verdict)

    def _append(self, path: Path, line: bytes) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab", buffering=0) as file:
                # With O_APPEND and one write per line, the lines of two processes do not mix.
                complete = file.write(line) == len(line)
        except OSError as error:
            raise InputError(
                f"{path}: the judge's verdicts cannot be written ({error.strerror or error}); free some space or"
                " choose another folder"
            ) from error
        if not complete:
            raise InputError(f"{path}: the judge's verdicts cannot be written in full; free some space")
