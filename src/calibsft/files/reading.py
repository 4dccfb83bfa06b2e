"""Opens a user's file, a whole table or some columns batch by batch, whatever kind of file it is.

The two ways differ on purpose. A whole table has the types that its file shows: numbers, booleans, lists. Cells of a batch
come as text from CSV and JSONL, because types would depend on which rows are read together; a number in JSON comes as its
shortest decimal. Columns of Parquet keep their types in both.
"""

import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol
from zipfile import BadZipFile

import polars as pl

from calibsft.artifacts import telling_damage
from calibsft.errors import InputError
from calibsft.files import csv, jsonl, logs, parquet
from calibsft.files.batches import Asked, Batch
from calibsft.files.cells import require_filled, text_column
from calibsft.files.columns import require_columns
from calibsft.files.dialect import OURS, Dialect
from calibsft.files.packed import damage


class Decoder(Protocol):
    """What `csv`, `jsonl` and `parquet` offer."""

    def whole(self, path: Path, dialect: Dialect) -> pl.DataFrame: ...

    def batches(self, path: Path, asked: Asked) -> Iterator[Batch]: ...

    def names(self, path: Path) -> list[str]: ...


# What decodes a table, by the ending of its name.
DECODERS: dict[str, Decoder] = {**dict.fromkeys(jsonl.ENDINGS, jsonl), ".csv": csv, ".parquet": parquet}
NO_ROWS = "the file has no rows; write at least one response into it"


def is_table(name: str) -> bool:
    """Whether `name` is that of a file that can be read, packed or not."""
    return name.lower().removesuffix(".gz").endswith(tuple(DECODERS))


def read_table(
    path: Path,
    required: Sequence[str] = (),
    filled: Sequence[str] | None = None,
    dialect: Dialect | None = None,
) -> pl.DataFrame:
    """Load `path`, a file or the folder of a stage. Ids are read as text so that 007 and 7 stay different.

    Parameters
    ----------
    required : columns that the file must have.
    filled : columns that must not have empty cells, where the file has them; None: those that are required.
    dialect : what the file calls our columns, which then stand beside its own; None if it must have our names.
    """
    spoken = OURS if dialect is None else dialect.at(path)
    frame = own_table(path, spoken, dialect is not None)
    named = [ours for ours, _ in spoken.columns]
    require_columns(path, frame.columns, [*required, *named], None if dialect is None else spoken)
    frame = spoken.named(frame)
    for column in required if filled is None else filled:
        if column in frame.columns:
            require_filled(path, frame, column)
    return frame.with_columns(
        text_column(path, frame, name) for name in ("question_id", "dataset") if name in frame.columns
    )


def own_table(path: Path, dialect: Dialect, logs_too: bool = True) -> pl.DataFrame:
    """The table of a file with its own columns alone; those that `dialect` names as our texts are texts."""
    with _explained(path):
        frame = _decoder(path, logs_too).whole(path, dialect)
    if frame.is_empty():
        raise InputError(f"{path}: {NO_ROWS}")
    return frame


def batches(
    path: Path, wanted: Sequence[str], required: Sequence[str] = (), dialect: Dialect | None = None
) -> Iterator[Batch]:
    """The `wanted` columns of `path`, a file or the folder of a stage, in file order; null where the file has none.

    Refuses a file without rows or without one of the `required` columns. In JSONL a column may first appear anywhere, so
    which ones the file has is known after the last batch. Memory is bounded, and cells are not judged.
    """
    rows = 0
    asked = Asked(wanted, required, None if dialect is None else dialect.at(path))
    with _explained(path):
        for batch in _decoder(path, dialect is not None).batches(path, asked):
            rows += batch.rows.height
            yield asked.ours(batch)
    if rows == 0:
        raise InputError(f"{path}: {NO_ROWS}")


def read_columns(
    path: Path, wanted: Sequence[str], required: Sequence[str] = (), dialect: Dialect | None = None
) -> pl.DataFrame:
    """All batches as one table."""
    return pl.concat([batch.rows for batch in batches(path, wanted, required, dialect)])


def column_names(path: Path) -> list[str]:
    """The columns that a file of responses has; of JSONL and logs those that its first records have."""
    with _explained(path):
        return _decoder(path, True).names(path)


def _decoder(path: Path, logs_too: bool) -> Decoder:
    """What decodes `path`: a log by its content, anything else by its name.

    Refuses a file that is missing, empty or of an unknown kind.
    """
    if not path.exists():
        raise InputError(f"{path}: no such file; give a .csv, .jsonl or .parquet file")
    if path.is_dir():
        return parquet
    if path.stat().st_size == 0:
        raise InputError(f"{path}: the file is empty; write at least one response into it")
    if logs_too and (log := logs.log_of(path)):
        return log
    name = path.name.lower().removesuffix(".gz")
    for ending, decoder in DECODERS.items():
        if name.endswith(ending):
            return decoder
    raise InputError(f"{path}: unknown file type '{path.suffix}'; use .csv, .jsonl or .parquet")


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Say in one sentence that a file is not what its name says, or which file of a stage's folder is damaged."""
    try:
        with telling_damage([path]):
            yield
    except pl.exceptions.NoDataError as error:
        raise InputError(f"{path}: {NO_ROWS}") from error
    except InputError as error:
        # Where a packed file is damaged, what comes out of it looks like a wrong row.
        if path.is_file() and (found := damage(path)):
            raise InputError(f"{path}: {found}") from error
        raise
    except (pl.exceptions.PolarsError, OSError, EOFError, zlib.error, BadZipFile) as error:
        first_line = str(error).strip().splitlines()[0]
        kind = "Parquet" if path.is_dir() else path.suffix
        raise InputError(
            f"{path}: cannot be read as {kind}: {first_line}; fix or convert the file"
        ) from error
