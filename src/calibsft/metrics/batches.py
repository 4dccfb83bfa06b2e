"""Chosen columns of a user's file, some rows at a time: however long the file is, little of it is in memory.

Cells of CSV and JSONL come as text, a number in JSON as its shortest decimal, so that no cell depends on what the rest of
the file holds; columns of Parquet keep their types. Columns that are not asked for are never decoded. Does not judge a
cell: `files` does. Whole tables are read by `tables`.
"""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from json import dumps
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl

from calibsft.errors import InputError
from calibsft.packed import opened
from calibsft.tables import (
    BYTE_ORDER_MARK,
    Digits,
    header_names,
    kind_of,
    may_repeat,
    parquet_files,
    record_of,
    refuse_no_rows,
    refuse_repeated,
    require_columns,
    shown,
    telling_what_is_broken,
)

BLOCK_BYTES = 1 << 23
BATCH_ROWS = 1 << 18
FIRST_RECORDS = 100
QUOTE = b'"'
# Judged by their text alone; a list or record in any other column is no name.
JUDGED = ("confidence", "correct", "grade", "well_formed", "reason")


@dataclass(frozen=True, slots=True)
class Batch:
    """Some rows of a file with every wanted column, and which of them the file was seen to have here."""

    rows: pl.DataFrame
    present: frozenset[str]


def batches(path: Path, wanted: Sequence[str], required: Sequence[str] = ()) -> Iterator[Batch]:
    """The `wanted` columns of `path`, a file or the folder of a stage, in file order; null where the file has none.

    Refuses a file without rows or without one of the `required` columns. In JSONL a column may first appear anywhere, so
    which ones the file has is known after the last batch.
    """
    read = {"csv": _csv, "jsonl": _jsonl, "parquet": _parquet}[kind_of(path)]
    rows = 0
    with telling_what_is_broken(path):
        for batch in read(path, wanted, required):
            rows += batch.rows.height
            yield batch
    if rows == 0:
        refuse_no_rows(path)


def column_names(path: Path) -> list[str]:
    """The columns that a file has; of JSONL those that its first records have."""
    kind = kind_of(path)
    with telling_what_is_broken(path):
        if kind == "parquet":
            return pl.scan_parquet(parquet_files(path), glob=False).collect_schema().names()
        with opened(path) as file:
            if kind == "csv":
                return pl.read_csv(_header(file), infer_schema=False).columns
            lines = (line.removeprefix(BYTE_ORDER_MARK) for line in islice(file, FIRST_RECORDS))
            records = [record_of(path, row, line) for row, line in enumerate(lines, start=1) if line.strip()]
    return list(dict.fromkeys(name for record in records for name in record))


def _parquet(path: Path, wanted: Sequence[str], required: Sequence[str]) -> Iterator[Batch]:
    table = pl.scan_parquet(parquet_files(path), glob=False)
    present = _present(path, table.collect_schema().names(), wanted, required)
    for rows in table.select(present).collect_batches(chunk_size=BATCH_ROWS, maintain_order=True):
        yield Batch(_with_all(rows, wanted), frozenset(present))


def _csv(path: Path, wanted: Sequence[str], required: Sequence[str]) -> Iterator[Batch]:
    with opened(path) as file:
        header = _header(file)
        names = header_names(header)
        refuse_repeated(path, names)
        present = _present(path, names, wanted, required)
        for block in _blocks(file, quoted=True):
            rows = pl.read_csv(header + block, columns=present, infer_schema=False)
            yield Batch(_with_all(rows, wanted), frozenset(present))


def _jsonl(path: Path, wanted: Sequence[str], required: Sequence[str]) -> Iterator[Batch]:
    before, found, first = 0, set[str](), b""
    with opened(path) as file:
        for block in _blocks(file, quoted=False):
            first = first or (block := block.removeprefix(BYTE_ORDER_MARK))
            batch = _json_batch(path, block, wanted, before)
            before += batch.rows.height
            found |= batch.present
            yield batch
    if before and not found.issuperset(required):
        names = pl.scan_ndjson(io.BytesIO(first), infer_schema_length=None).collect_schema().names()
        _present(path, [*names, *found], wanted, required)


def _present(path: Path, names: Sequence[str], wanted: Sequence[str], required: Sequence[str]) -> list[str]:
    """The `wanted` columns among `names`, which must hold the `required` ones."""
    require_columns(path, pl.DataFrame(schema=dict.fromkeys(names, pl.String)), required)
    return [name for name in wanted if name in names]


def _with_all(rows: pl.DataFrame, wanted: Sequence[str]) -> pl.DataFrame:
    missing = [pl.lit(None, pl.String).alias(name) for name in wanted if name not in rows.columns]
    return rows.with_columns(missing).select(wanted)


def _header(file: BinaryIO) -> bytes:
    """The first record that is not blank."""
    header = b"\n"
    while header and not header.strip(b"\r\n"):
        header = file.readline()
    return header + _rest_of_record(file, header.count(QUOTE))


def _blocks(file: BinaryIO, quoted: bool) -> Iterator[bytes]:
    """The rest of the file, cut between records; in a `quoted` file a record may have several lines."""
    while block := file.read(BLOCK_BYTES):
        end = file.readline()
        yield block + end + _rest_of_record(file, block.count(QUOTE) + end.count(QUOTE) if quoted else 0)


def _rest_of_record(file: BinaryIO, quotes: int) -> bytes:
    """The lines that a record still has after so many quotation marks: inside a quoted cell their number is odd."""
    lines = []
    while quotes % 2 and (line := file.readline()):
        lines.append(line)
        quotes += line.count(QUOTE)
    return b"".join(lines)


def _json_batch(path: Path, block: bytes, wanted: Sequence[str], before: int) -> Batch:
    """The objects of a block, which follow `before` others."""
    try:
        rows = pl.scan_ndjson(io.BytesIO(block), schema=dict.fromkeys(wanted, pl.String)).collect()
    except pl.exceptions.PolarsError:
        return _json_line_by_line(path, block, wanted, before)
    names = [name for name in wanted if name not in JUDGED]
    # A list or a record is written out like a text that looks like one: only the slow way can tell them apart.
    if any(rows[name].str.contains(r"\A[\[{]").any() for name in names) or may_repeat(
        block, wanted, rows.height
    ):
        return _json_line_by_line(path, block, wanted, before)
    return Batch(rows, _keys(block, rows))


def _keys(block: bytes, rows: pl.DataFrame) -> frozenset[str]:
    """The columns for which the block has a key, were it with null alone."""
    found = {name for name in rows.columns if rows[name].null_count() < rows.height}
    doubtful = {name for name in rows.columns if not name.isascii() or dumps(name).encode() in block} - found
    if doubtful:
        found |= doubtful.intersection(
            pl.scan_ndjson(io.BytesIO(block), infer_schema_length=None).collect_schema().names()
        )
    return frozenset(found)


def _json_line_by_line(path: Path, block: bytes, wanted: Sequence[str], before: int) -> Batch:
    """The same, slowly: names the line that is no object, and reads what polars cannot, such as NaN or 1e400."""
    lines = (line for line in block.split(b"\n") if line.strip())
    records = [record_of(path, row, line) for row, line in enumerate(lines, start=before + 1)]
    columns = [
        [_text(path, before + i, name, record.get(name)) for i, record in enumerate(records, start=1)]
        for name in wanted
    ]
    rows = pl.DataFrame(columns, schema=dict.fromkeys(wanted, pl.String))
    return Batch(rows, frozenset(name for name in wanted if any(name in record for record in records)))


def _text(path: Path, row: int, name: str, value: Any) -> str | None:
    """A JSON value as polars writes it into a text column."""
    if isinstance(value, Digits):
        return str(value) if value.whole else _shortest(float(value))
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()  # an unpaired surrogate is no text elsewhere
    if isinstance(value, list | dict) and name not in JUDGED:
        raise InputError(
            f"{path}, row {row}: '{name}' holds {shown(dumps(value))}, which is no text; write a text"
        )
    return None if value is None else dumps(value)


def _shortest(number: float) -> str:
    """The shortest decimal that denotes the number, without an exponent and without a fraction of zero."""
    return f"{Decimal(repr(number)):f}".removesuffix(".0") if abs(number) < float("inf") else str(number)
