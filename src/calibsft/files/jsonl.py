"""JSONL files: decoded whole, with the types that polars infers, or batch by batch, with every cell as text.

Polars decodes what it reads faithfully, and Python, many times slower, the rest: golds, whose 3 polars would make 3.0, NaN
and numbers beyond a float, and keys that may repeat. Python also names the line that is no object.
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
from calibsft.files.batches import Batch, blocks, chosen
from calibsft.files.cells import shown
from calibsft.files.columns import TEXT_COLUMNS
from calibsft.files.packed import opened

Record = dict[str, Any]
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
FIRST_RECORDS = 100
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


def whole(path: Path) -> pl.DataFrame:
    """The whole file; numbers in columns that are names or texts stay as they are written where the file has golds."""
    with opened(path) as file:
        data = file.read()
    first = next((line for line in io.BytesIO(data) if line.strip()), b"")
    if b'"gold"' not in first and not first.startswith(BYTE_ORDER_MARK):
        try:
            frame = pl.read_ndjson(data, infer_schema_length=None)
        except pl.exceptions.PolarsError:
            for _ in _records(path, io.BytesIO(data)):
                pass  # names the first line that is not an object, which polars does not
            raise
        if not _may_repeat(data, frame.columns, frame.height):
            return frame
    records = list(_records(path, io.BytesIO(data)))
    return pl.DataFrame(
        [_column(path, name, [record.get(name) for record in records]) for name in _keys(records)]
    )


def batches(path: Path, wanted: Sequence[str], required: Sequence[str]) -> Iterator[Batch]:
    """The wanted columns as text, so that no cell depends on what the rest of the file holds."""
    before, found, first = 0, set[str](), b""
    with opened(path) as file:
        for block in blocks(file, quoted=False):
            first = first or (block := block.removeprefix(BYTE_ORDER_MARK))
            batch = _fast_batch(block, wanted) or _slow_batch(path, block, wanted, before)
            before += batch.rows.height
            found |= batch.present
            yield batch
    if before and not found.issuperset(required):
        chosen(path, [*_schema_names(first), *found], wanted, required)


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
                f"{path}, row {row}: the key {key} is there twice; remove or rename one"
            ) from error
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise InputError(f"{path}, row {row}: not a JSON object; write one complete object per line")
        yield _repaired(found) if SURROGATE.search(line) else found


def _repaired(value: Any) -> Any:
    """`value` with a question mark for every unpaired surrogate, which JSON can write and no text can hold."""
    if isinstance(value, dict):
        return {_repaired(key): _repaired(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_repaired(inner) for inner in value]
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


def _column(path: Path, name: str, values: list[Any]) -> pl.Series:
    """A column of a whole table: text, one gold or several, or of the type that its values show."""
    if name not in TEXT_COLUMNS:
        plain = [value.value() if isinstance(value, Digits) else value for value in values]
        return pl.Series(name, plain, strict=False)
    several = name == "gold" and any(isinstance(value, list) for value in values)
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


def _fast_batch(block: bytes, wanted: Sequence[str]) -> Batch | None:
    """The objects of a block, None where polars may not be trusted with them."""
    try:
        rows = pl.scan_ndjson(io.BytesIO(block), schema=dict.fromkeys(wanted, pl.String)).collect()
    except pl.exceptions.PolarsError:
        return None
    # A list or a record is written out like a text that looks like one: only the slow way can tell them apart.
    nested = (rows[name].str.contains(r"\A[\[{]").any() for name in wanted if name not in JUDGED)
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


def _slow_batch(path: Path, block: bytes, wanted: Sequence[str], before: int) -> Batch:
    """The same line by line."""
    records = list(_records(path, block.split(b"\n"), before))
    columns = [
        [_text(path, row, name, record.get(name)) for row, record in enumerate(records, start=before + 1)]
        for name in wanted
    ]
    rows = pl.DataFrame(columns, schema=dict.fromkeys(wanted, pl.String))
    return Batch(rows, frozenset(wanted).intersection(_keys(records)))


def _text(path: Path, row: int, name: str, value: Any) -> str | None:
    """A JSON value as polars writes it into a text column."""
    if isinstance(value, Digits):
        return value.shortest()
    if isinstance(value, str):
        return value
    if isinstance(value, list | dict) and name not in JUDGED:
        _refuse_no_text(path, row, name, value)
    return None if value is None else json.dumps(value)
