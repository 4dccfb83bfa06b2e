"""Writes a user's table in the form that the file's name asks for, and never replaces another file unless asked to.

Does not pack files or write folders of stages: that is `artifacts`.
"""

from collections.abc import Callable
from pathlib import Path

import polars as pl

from calibsft.artifacts import write_atomic
from calibsft.errors import InputError

Writer = Callable[[pl.DataFrame, Path], object]
WRITERS: dict[str, Writer] = {
    ".csv": lambda frame, path: frame.write_csv(path),
    ".jsonl": lambda frame, path: frame.write_ndjson(path),
    ".ndjson": lambda frame, path: frame.write_ndjson(path),
    ".parquet": lambda frame, path: frame.write_parquet(path),
}


def require_writable(path: Path, force: bool) -> None:
    """Refuse a name whose form is not known, and a file that is there already unless `force`."""
    if path.suffix.lower() not in WRITERS:
        raise InputError(f"{path}: the name must end in {', '.join(WRITERS)}; choose another --out")
    require_free(path, force)


def require_free(path: Path, force: bool) -> None:
    """Refuse a folder, and a file that is there already unless `force`."""
    if path.is_dir() or (path.exists() and not force):
        raise InputError(
            f"{path}: there is something of that name already; choose another --out, or use --force"
        )


def write_table(path: Path, frame: pl.DataFrame) -> None:
    """Write `frame`; a CSV holds no lists or records."""
    nested = [name for name, kind in frame.schema.items() if kind.is_nested()]
    if nested and path.suffix.lower() == ".csv":
        raise InputError(
            f"{path}: column '{nested[0]}' holds lists or records, which CSV cannot; write .jsonl"
        )
    write_atomic(path, lambda temporary: WRITERS[path.suffix.lower()](frame, temporary))
