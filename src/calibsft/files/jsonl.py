"""JSONL files: decoded whole, with the types that polars infers, or batch by batch, with every cell as text.

Polars decodes what it reads exactly. Python, many times slower, decodes the rest: golds (polars would turn 3 into 3.0),
NaN, numbers beyond a float, and objects whose keys may repeat. Python also names the line that is not an object.
"""

import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

import polars as pl

from calibsft.errors import InputError
from calibsft.files.batches import Asked, Batch, blocks
from calibsft.files.cells import shown
from calibsft.files.columns import TEXT_COLUMNS
from calibsft.files.dialect import Dialect
from calibsft.files.packed import opened

Record = dict[str, Any]
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
FIRST_RECORDS = 100
ENDINGS = (".jsonl", ".ndjson")
# Digits of the widest integers of polars; Python itself refuses thousands of them.
LONGEST_INTEGER = 38
SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
# Judged by their text alone; a list or record in any other column is no name.
JUDGED = ("confidence", "correct", "grade", "well_formed", "reason")


class Digits(str):
    """A number as it is written."""

    @property
    def whole(self) -> bool:
        return self.lstrip("-").isdigit()

    def value(self) -> int | float:
        return int(self) if self.whole and len(self) <= LONGEST_INTEGER else float(self)

    def shortest(self) -> str:
        """As polars writes it into a text column: the shortest decimal, without an exponent or a fraction of zero."""
        if self.whole:
            return str(self)
        number = float(self)
        finite = abs(number) < float("inf")
        return f"{Decimal(repr(number)):f}".removesuffix(".0") if finite else str(number)


def whole(path: Path, dialect: Dialect) -> pl.DataFrame:
    """The whole file; numbers in columns that are names or texts stay as they are written where the file has golds."""
    with opened(path) as file:
        data = file.read()
    if not data.strip():
        return pl.DataFrame()
    first = next((line for line in io.BytesIO(data) if line.strip()), b"")
    golds = {json.dumps(name).encode() for name in ("gold", dialect.theirs("gold"))}
    if not any(name in first for name in golds) and not first.startswith(BYTE_ORDER_MARK):
        try:
            frame = pl.read_ndjson(data, infer_schema_length=None)
        except pl.exceptions.PolarsError:
            for _ in _records(path, io.BytesIO(data)):
                pass  # names the first line that is not an object, which polars does not
            raise
        if not _may_repeat(data, frame.columns, frame.height):
            return frame
    return table_of(path, list(_records(path, io.BytesIO(data))), dialect)


def batches(path: Path, asked: Asked) -> Iterator[Batch]:
    """The wanted columns as text, so that no cell depends on what the rest of the file holds."""
    before, found, first = 0, set[str](), b""
    with opened(path) as file:
        for block in blocks(file, quoted=False):
            first = first or (block := block.removeprefix(BYTE_ORDER_MARK))
            batch = _fast_batch(block, asked) or _slow_batch(path, block, asked, before)
            before += batch.rows.height
            found |= batch.present
            yield batch
    if before and not asked.satisfied(found):
        asked.among(path, [*_schema_names(first), *found])


def is_name(name: str) -> bool:
    """Whether a file of this name is JSONL, packed or not."""
    return name.lower().removesuffix(".gz").endswith(ENDINGS)


def first_record(path: Path) -> Record | None:
    """The first object of a file; None where its first line is no object, or repeats a key."""
    with opened(path) as file:
        first = next((line for line in file if line.strip()), b"").removeprefix(BYTE_ORDER_MARK)
    try:
        return next(_records(path, [first]), None)
    except InputError:
        return None


def every_record(path: Path) -> Iterator[Record]:
    """The objects of a file, one by one; numbers as they are written."""
    with opened(path) as file:
        yield from _records(path, (line.removeprefix(BYTE_ORDER_MARK) for line in file))


def names(path: Path) -> list[str]:
    """The names of the columns in the first records."""
    with opened(path) as file:
        lines = (line.removeprefix(BYTE_ORDER_MARK) for line in islice(file, FIRST_RECORDS))
        return _keys(_records(path, lines))


def _keys(records: Iterable[Record]) -> list[str]:
    return list(dict.fromkeys(name for record in records for name in record))


def _schema_names(block: bytes) -> list[str]:
    return pl.scan_ndjson(io.BytesIO(block), infer_schema_length=None).collect_schema().names()


def _records(path: Path, lines: Iterable[bytes], before: int = 0) -> Iterator[Record]:
    """The objects in the lines that are not blank, which follow `before` others; numbers as they are written."""
    filled = (line for line in lines if line.strip())
    for row, line in enumerate(filled, start=before + 1):
        try:
            found = json.loads(line, parse_int=Digits, parse_float=Digits, object_pairs_hook=_once_each)
        except KeyError as error:
            key = shown(error.args[0])
            raise InputError(
                f"{path}, row {row}: the key {key} occurs twice; remove or rename one"
            ) from error
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise InputError(f"{path}, row {row}: not a JSON object; write one complete object per line")
        yield repaired(found) if SURROGATE.search(line) else found


def repaired(value: Any) -> Any:
    """`value` with a question mark for every unpaired surrogate, which JSON can write and no text can hold."""
    if isinstance(value, dict):
        return {repaired(key): repaired(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [repaired(inner) for inner in value]
    plain = isinstance(value, str) and not isinstance(value, Digits)
    return value.encode("utf-8", "replace").decode() if plain else value


def _once_each(pairs: list[tuple[str, Any]]) -> Record:
    """The object of these pairs; a key that it has twice is raised as a KeyError."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [name for name, _ in pairs]
        raise KeyError(next(name for name in keys if keys.count(name) > 1))
    return found


def _may_repeat(data: bytes, keys: Iterable[str], rows: int) -> bool:
    """Whether one of so many objects may have a key twice: polars would take the first, Python the last."""
    return any(data.count(json.dumps(key, ensure_ascii=False).encode()) > rows for key in keys)


def table_of(path: Path, records: Sequence[Record], dialect: Dialect) -> pl.DataFrame:
    """A whole table of objects: texts in the columns that are names or texts, else the types that the values show."""
    columns = []
    for name in _keys(records):
        values, meanings = [record.get(name) for record in records], dialect.meanings(name)
        columns.append(
            _column(path, name, values, not set(TEXT_COLUMNS).isdisjoint(meanings), "gold" in meanings)
        )
    return pl.DataFrame(columns)


def _column(path: Path, name: str, values: list[Any], text: bool, gold: bool) -> pl.Series:
    """A column of a whole table: text, one gold or several, or of the type that its values show."""
    if not text:
        plain = [value.value() if isinstance(value, Digits) else value for value in values]
        return pl.Series(name, plain, strict=False)
    several = gold and any(isinstance(value, list) for value in values)
    if several:
        values = [value if value is None or isinstance(value, list) else [value] for value in values]
    for row, value in enumerate(values, start=1):
        for item in (value or ()) if several else (value,):
            if item is not None and not isinstance(item, str):
                _refuse_no_text(path, row, name, item)
    return pl.Series(name, values, dtype=pl.List(pl.String) if several else pl.String)


def _refuse_no_text(path: Path, row: int, name: str, value: Any) -> NoReturn:
    raise InputError(
        f"{path}, row {row}: '{name}' holds {shown(json.dumps(value))}, which is no text; write a text"
    )


def _fast_batch(block: bytes, asked: Asked) -> Batch | None:
    """The objects of a block, None where polars may not be trusted with them."""
    wanted = asked.columns
    try:
        rows = pl.scan_ndjson(io.BytesIO(block), schema=dict.fromkeys(wanted, pl.String)).collect()
    except pl.exceptions.PolarsError:
        return None
    # A list or a record is written out like a text that looks like one: only the slow way can tell them apart.
    nested = (rows[name].str.contains(r"\A[\[{]").any() for name in wanted if not asked.means(name, JUDGED))
    if any(nested) or _may_repeat(block, wanted, rows.height):
        return None
    return Batch(rows, _present(block, rows))


def _present(block: bytes, rows: pl.DataFrame) -> frozenset[str]:
    """Columns that occur in the block, even if every value is null."""
    found = {name for name in rows.columns if rows[name].null_count() < rows.height}
    doubtful = {
        name for name in rows.columns if not name.isascii() or json.dumps(name).encode() in block
    } - found
    return frozenset(found | doubtful.intersection(_schema_names(block)) if doubtful else found)


def _slow_batch(path: Path, block: bytes, asked: Asked, before: int) -> Batch:
    """The same line by line."""
    return batch_of_records(path, list(_records(path, block.split(b"\n"), before)), asked, before)


def batch_of_records(path: Path, records: Sequence[Record], asked: Asked, before: int) -> Batch:
    """Objects that follow `before` others as a batch: every cell as text."""
    columns = [
        [
            _text(path, row, name, record.get(name), asked.means(name, JUDGED))
            for row, record in enumerate(records, start=before + 1)
        ]
        for name in asked.columns
    ]
    rows = pl.DataFrame(columns, schema=dict.fromkeys(asked.columns, pl.String))
    return Batch(rows, frozenset(asked.columns).intersection(_keys(records)))


def _text(path: Path, row: int, name: str, value: Any, judged: bool) -> str | None:
    """A JSON value as polars writes it into a text column."""
    if isinstance(value, Digits):
        return value.shortest()
    if isinstance(value, str):
        return value
    if isinstance(value, list | dict) and not judged:
        _refuse_no_text(path, row, name, value)
    return None if value is None else json.dumps(value)
