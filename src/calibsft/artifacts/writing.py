"""Files that appear whole: written under a temporary name, synced, and renamed."""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl

from calibsft.errors import InputError

TEMPORARY = ".partial"


def write_atomic(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file, make it durable, and give it its name in one step."""
    partial = path.with_name(path.name + TEMPORARY)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(partial)
        with partial.open("rb+") as handle:
            os.fsync(handle.fileno())
        partial.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        _forget(partial)
        raise InputError(
            f"{path}: cannot be written ({error.strerror or error}); free some space or choose another place for it"
        ) from error
    except BaseException:
        _forget(partial)
        raise


def make_folder(folder: Path) -> None:
    """Make a folder, and those around it, unless it exists."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be made a folder ({error.strerror}); choose another one with --out"
        ) from error


def _forget(partial: Path) -> None:
    """Remove what a failed write left, if anything can be removed there."""
    with suppress(OSError):
        partial.unlink(missing_ok=True)


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
