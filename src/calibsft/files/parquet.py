"""Parquet files and the folders that stages leave: columns keep their types."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from calibsft.artifacts import shards
from calibsft.errors import InputError
from calibsft.files import batches as sizes
from calibsft.files.batches import Asked, Batch, batch_of
from calibsft.files.dialect import Dialect

# What an evaluation leaves: one row per response.
ROWS = "rows.parquet"


def whole(path: Path, dialect: Dialect) -> pl.DataFrame:
    """The whole table."""
    return pl.read_parquet(_files(path), glob=False)


def batches(path: Path, asked: Asked) -> Iterator[Batch]:
    """The wanted columns; others are never decoded."""
    present = asked.among(path, names(path))
    table = pl.scan_parquet(_files(path), glob=False).select(present)
    for rows in table.collect_batches(chunk_size=sizes.BATCH_ROWS, maintain_order=True):
        yield batch_of(rows, asked.columns)


def names(path: Path) -> list[str]:
    """The names of the columns."""
    return pl.scan_parquet(_files(path), glob=False).collect_schema().names()


def _files(path: Path) -> list[Path]:
    """The file itself, or those that a stage left in the folder: the rows of an evaluation, or parts."""
    if (path / ROWS).is_file():
        return [path / ROWS]
    files = shards(path) if path.is_dir() else [path]
    if not files:
        raise InputError(
            f"{path}: a folder without part-*.parquet or {ROWS}; give a file, a folder of verdicts, or an evaluation"
        )
    return files
