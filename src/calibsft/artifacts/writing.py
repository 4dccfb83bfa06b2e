"""Write files atomically: under a temporary name, synced, and renamed."""

import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import polars as pl

from calibsft.errors import NO_ROOM, InputError, system_refusal

TEMPORARY = ".partial"


def temporary_name(path: Path) -> Path:
    """A random name beside `path`; under a name that can be guessed, a planted link could redirect the write."""
    return path.with_name(f"{path.name}.{secrets.token_hex(4)}{TEMPORARY}")


def write_atomic(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file, sync it, and rename it to `path` in one step."""
    partial = temporary_name(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666))
        write(partial)
        with partial.open("rb+") as handle:
            os.fsync(handle.fileno())
        partial.replace(path)
        _sync_folder(path.parent)
    except Exception as error:
        if refusal := system_refusal(error):
            raise InputError(
                f"{path}: cannot be written ({refusal.strerror or refusal}); free some space or choose another place for it"
            ) from error
        raise
    finally:
        with suppress(OSError):  # it is there only after a failure
            partial.unlink(missing_ok=True)


@contextmanager
def telling_no_room(folder: Path) -> Iterator[None]:
    """Report a full disk in one sentence, whichever library writes into `folder`."""
    try:
        yield
    except Exception as error:
        refusal = system_refusal(error)
        if refusal is not None and refusal.errno in NO_ROOM:
            raise InputError(
                f"{refusal.filename or folder}: cannot be written ({refusal.strerror}); free some space and run the same"
                " command again to go on"
            ) from error
        raise


def make_folder(folder: Path) -> None:
    """Create a folder and its parents, unless they exist."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be created as a folder ({error.strerror}); choose another one with --out"
        ) from error


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_text(path: Path, text: str) -> None:
    write_atomic(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def write_bytes(path: Path, data: bytes) -> None:
    write_atomic(path, lambda partial: partial.write_bytes(data))


def write_json(path: Path, data: Any) -> None:
    write_text(path, json.dumps(data, indent=2, ensure_ascii=False) + "\n")


def write_parquet(path: Path, frame: pl.DataFrame) -> None:
    write_atomic(path, lambda partial: frame.write_parquet(partial))


def write_parquet_parts(path: Path, parts: Iterable[pl.DataFrame], texts: Sequence[str] = ()) -> None:
    """Write tables with the same columns, one or more, as one file; each is in memory only while it is written.

    The cells of the columns `texts` are long and differ, so no dictionary of them is tried.
    """
    write_atomic(path, lambda partial: _write_parts(partial, parts, texts))


def _write_parts(path: Path, parts: Iterable[pl.DataFrame], texts: Sequence[str]) -> None:
    # Polars writes a table only as a whole.
    from pyarrow.parquet import ParquetWriter

    with ExitStack() as opened:
        file = None
        for part in parts:
            table = part.to_arrow(compat_level=pl.CompatLevel.oldest())
            if file is None:
                repeated = [name for name in table.column_names if name not in texts]
                writer = ParquetWriter(path, table.schema, compression="zstd", use_dictionary=repeated)
                file = opened.enter_context(writer)
            file.write_table(table)
            del part, table  # before the next part is made
