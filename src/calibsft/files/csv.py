"""CSV files: decoded whole, with the types that polars infers, or batch by batch, with every cell as text."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from calibsft.files.batches import Asked, Batch, batch_of, blocks, header_of
from calibsft.files.columns import TEXT_COLUMNS, refuse_repeated
from calibsft.files.dialect import Dialect
from calibsft.files.packed import opened


def whole(path: Path, dialect: Dialect) -> pl.DataFrame:
    """The whole file; columns that are names or texts are never numbers."""
    with opened(path) as file:
        data = file.read()
    refuse_repeated(path, _header_cells(data))
    try:
        texts = [*TEXT_COLUMNS, *map(dialect.theirs, TEXT_COLUMNS)]
        return pl.read_csv(data, infer_schema_length=None, schema_overrides=dict.fromkeys(texts, pl.String))
    except pl.exceptions.ComputeError:
        # Polars infers a number where it then cannot read one, such as Arabic digits. Whoever uses the column
        # checks its text, and can name the row.
        return pl.read_csv(data, infer_schema=False)


def batches(path: Path, asked: Asked) -> Iterator[Batch]:
    """The wanted columns as text, so that no cell depends on what the rest of the file holds."""
    with opened(path) as file:
        header = header_of(file)
        names = _header_cells(header)
        refuse_repeated(path, names)
        present = asked.among(path, names)
        for block in blocks(file, quoted=True):
            yield batch_of(pl.read_csv(header + block, columns=present, infer_schema=False), asked.columns)


def names(path: Path) -> list[str]:
    """The names of the columns."""
    with opened(path) as file:
        return pl.read_csv(header_of(file), infer_schema=False).columns


def _header_cells(data: bytes) -> list[str]:
    """The cells of the first line as they are written: polars renames those that repeat."""
    first = pl.read_csv(
        data,
        has_header=False,
        n_rows=1,
        infer_schema=False,
        encoding="utf8-lossy",
        truncate_ragged_lines=True,
    )
    return [(cell or "").removeprefix("\ufeff") for cell in first.row(0)]
