"""What decoders share: cutting a file between records, so that little of it is in memory, and batches of wanted columns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import polars as pl

from calibsft.files.columns import require_columns

BLOCK_BYTES = 1 << 23
BATCH_ROWS = 1 << 18
QUOTE = b'"'


@dataclass(frozen=True, slots=True)
class Batch:
    """Some rows of a file with every wanted column, and which of these columns the file was seen to have here."""

    rows: pl.DataFrame
    present: frozenset[str]


def batch_of(rows: pl.DataFrame, wanted: Sequence[str]) -> Batch:
    """`rows` with every wanted column, null where the file has none."""
    missing = [pl.lit(None, pl.String).alias(name) for name in wanted if name not in rows.columns]
    return Batch(rows.with_columns(missing).select(wanted), frozenset(rows.columns))


def chosen(path: Path, names: Sequence[str], wanted: Sequence[str], required: Sequence[str]) -> list[str]:
    """The `wanted` columns among `names`, which must hold the `required` ones."""
    require_columns(path, pl.DataFrame(schema=dict.fromkeys(names, pl.String)), required)
    return [name for name in wanted if name in names]


def header_of(file: BinaryIO) -> bytes:
    """The first record that is not blank."""
    header = b"\n"
    while header and not header.strip(b"\r\n"):
        header = file.readline()
    return header + _rest_of_record(file, header.count(QUOTE))


def blocks(file: BinaryIO, quoted: bool) -> Iterator[bytes]:
    """The rest of the file in blocks of whole records; in a `quoted` file a record may have several lines."""
    while block := file.read(BLOCK_BYTES):
        end = file.readline()
        yield block + end + _rest_of_record(file, block.count(QUOTE) + end.count(QUOTE) if quoted else 0)


def _rest_of_record(file: BinaryIO, quotes: int) -> bytes:
    """The lines that complete a record after so many quotation marks: inside a quoted cell their number is odd."""
    lines = []
    while quotes % 2 and (line := file.readline()):
        lines.append(line)
        quotes += line.count(QUOTE)
    return b"".join(lines)
