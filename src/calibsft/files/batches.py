"""What decoders share: cutting a file between records, so that little of it is in memory, and batches of wanted columns."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import polars as pl

from calibsft.files.columns import require_columns
from calibsft.files.dialect import OURS, Dialect

BLOCK_BYTES = 1 << 23
BATCH_ROWS = 1 << 18
QUOTE = b'"'


@dataclass(frozen=True, slots=True)
class Batch:
    """Some rows of a file with every wanted column, and which of these columns the file was seen to have here."""

    rows: pl.DataFrame
    present: frozenset[str]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a reader asks of a file.

    Attributes
    ----------
    wanted, required : columns, by our names, and those of them that the file must have.
    dialect : what the file calls them; None if it must have our names.
    """

    wanted: Sequence[str]
    required: Sequence[str] = ()
    dialect: Dialect | None = None

    @property
    def columns(self) -> list[str]:
        """The wanted columns by the file's own names."""
        return list(dict.fromkeys(map(self._spoken.theirs, self.wanted)))

    @property
    def must(self) -> list[str]:
        """The columns that the file must have, by our names: an option that names one means that it is there."""
        named = [ours for ours, _ in self._spoken.columns if ours in self.wanted]
        return list(dict.fromkeys([*self.required, *named]))

    @property
    def _spoken(self) -> Dialect:
        return self.dialect or OURS

    def among(self, path: Path, names: Sequence[str]) -> list[str]:
        """The wanted columns of a file with these columns; refuses one that lacks a column that it must have."""
        require_columns(path, names, self.must, self.dialect)
        return [name for name in self.columns if name in names]

    def satisfied(self, names: Collection[str]) -> bool:
        """Whether a file with these columns has those that it must have."""
        return all(self._spoken.theirs(ours) in names for ours in self.must)

    def means(self, theirs: str, ours: Sequence[str]) -> bool:
        """Whether a column of the file is one of these columns of ours."""
        return not set(ours).isdisjoint(self._spoken.meanings(theirs))

    def ours(self, batch: Batch) -> Batch:
        """A batch with the file's columns, by our names."""
        theirs = {ours: self._spoken.theirs(ours) for ours in self.wanted}
        rows = batch.rows.select(pl.col(name).alias(ours) for ours, name in theirs.items())
        return Batch(rows, frozenset(ours for ours, name in theirs.items() if name in batch.present))


def batch_of(rows: pl.DataFrame, wanted: Sequence[str]) -> Batch:
    """`rows` with every wanted column, null where the file has none."""
    missing = [pl.lit(None, pl.String).alias(name) for name in wanted if name not in rows.columns]
    return Batch(rows.with_columns(missing).select(wanted), frozenset(rows.columns))


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
