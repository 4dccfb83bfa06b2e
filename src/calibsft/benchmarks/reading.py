"""Read the rows of a local data file: JSON, JSONL, TSV, CSV or Parquet, plain or gzipped.

Nested fields stay nested, and rows may differ in their fields, unlike in `calibsft.files`. Does not search for files
(`sources`) and does not check fields (`row`).
"""

import csv
import io
import json
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from calibsft.errors import InputError
from calibsft.files.packed import opened

Fields = dict[str, Any]
# The columns of a table without a header.
HEADERLESS = ("question", "answer")
# The first line is a header if it has one of these names.
QUESTION_COLUMNS = {"question", "problem", "prompt", "context", "turns"}


def read_rows(path: Path) -> list[Fields]:
    """The rows of a file, each as a mapping of field to value."""
    read = READERS[extension(path)]
    try:
        with opened(path) as file:
            rows = read(file.read(), path)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: cannot be read ({error}); give it again from its source") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a text in UTF-8; convert the file") from error
    if not rows:
        raise InputError(f"{path}: the file has no rows; give it again from its source")
    return rows


def extension(path: Path) -> str:
    """The kind of file, without .gz: `x.jsonl.gz` is jsonl."""
    return path.name.lower().removesuffix(".gz").rpartition(".")[2]


def stem(path: Path) -> str:
    """The name without extension and .gz."""
    return path.name.removesuffix(".gz").rpartition(".")[0]


def _json(data: bytes, path: Path) -> list[Fields]:
    found = _parse(data, path, "")
    rows = list(found.values()) if isinstance(found, dict) else found
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{path}: not a list of objects; write one object per question")
    return rows


def _jsonl(data: bytes, path: Path) -> list[Fields]:
    # Not splitlines: a question may hold a line separator of Unicode.
    lines = [line for line in data.split(b"\n") if line.strip()]
    rows = [_parse(line, path, f", row {number}") for number, line in enumerate(lines, start=1)]
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise InputError(f"{path}, row {number}: not a JSON object; write one complete object per line")
    return rows


def _parse(data: bytes, path: Path, where: str) -> Any:
    try:
        return json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}{where}: not valid JSON ({error}); fix the file") from error


def _table(separator: str) -> Callable[[bytes, Path], list[Fields]]:
    def read(data: bytes, path: Path) -> list[Fields]:
        csv.field_size_limit(2**31 - 1)  # a passage may be longer than the module's default limit
        text = io.StringIO(data.decode("utf-8-sig"), newline="")
        try:
            lines = [cells for cells in csv.reader(text, delimiter=separator) if cells]
        except csv.Error as error:
            raise InputError(f"{path}: not a readable table ({error}); fix or convert the file") from error
        first = [cell.strip() for cell in lines[0]] if lines else []
        has_header = not QUESTION_COLUMNS.isdisjoint(first)
        names = first if has_header else HEADERLESS
        return [_named(names, cells, path, row) for row, cells in enumerate(lines[has_header:], start=1)]

    return read


def _named(names: Sequence[str], cells: list[str], path: Path, number: int) -> Fields:
    if len(cells) > len(names):
        raise InputError(
            f"{path}, row {number}: {len(cells)} cells where the columns are {', '.join(names)};"
            " quote cells that hold the separator, and name all columns in the first line"
        )
    return dict(zip(names, cells, strict=False))


def _parquet(data: bytes, path: Path) -> list[Fields]:
    import polars as pl

    try:
        return pl.read_parquet(io.BytesIO(data)).to_dicts()
    except pl.exceptions.PolarsError as error:
        first_line = str(error).strip().splitlines()[0]
        raise InputError(f"{path}: not a readable Parquet file ({first_line}); give it again") from error


READERS: dict[str, Callable[[bytes, Path], list[Fields]]] = {
    "json": _json,
    "jsonl": _jsonl,
    "tsv": _table("\t"),
    "csv": _table(","),
    "parquet": _parquet,
}
