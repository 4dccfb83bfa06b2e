"""Read a user's own file - CSV, JSONL or Parquet, plain or gzipped - into a checked table.

Every complaint names the file, the row (1-based, the header not counted) and the way out. Does not
interpret model text: that is `responses`.
"""

import ast
import gzip
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import polars as pl

from calibsft.artifacts import shards
from calibsft.errors import InputError

TRUE_WORDS = ("true", "1", "1.0", "yes", "correct")
FALSE_WORDS = ("false", "0", "0.0", "no", "incorrect")
# Never numbers, whatever they look like: 007 is not 7, and a gold of 3 beside one of 0.5 is not 3.0.
TEXT_COLUMNS = (
    "question_id", "dataset", "question", "response", "gold", "kind", "split", "answer", "tolerance",
)  # fmt: skip
# What identifies a response, in every table.
KEYS = ("dataset", "question_id", "sample")
SHOWN_CHARACTERS = 40
LARGEST_SAMPLE = 2**31 - 1
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# A list written as text is short: the longest of TriviaQA has 9,000 characters.
LIST_CHARACTERS = 1_000_000
_ITEM = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|-?[0-9]+(?:\.[0-9]+)?)"""
_PYTHON_LIST = re.compile(rf"\[\s*(?:{_ITEM}(?:\s*,\s*{_ITEM})*\s*)?\]", re.DOTALL)


def read_table(path: Path, required: Sequence[str] = ()) -> pl.DataFrame:
    """Load `path`, a file or the folder of a stage, and make sure that it has rows and the `required` columns.

    Ids are read as text so that 007 and 7 stay different.
    """
    if not path.exists():
        raise InputError(f"{path}: no such file; give a .csv, .jsonl or .parquet file")
    frame = _load_parts(path) if path.is_dir() else _load(path)
    if frame.is_empty():
        raise InputError(f"{path}: the file has no rows; write at least one response into it")
    require_columns(path, frame, required)
    for column in required:
        require_filled(path, frame, column)
    return frame.with_columns(
        text_column(path, frame, name) for name in ("question_id", "dataset") if name in frame.columns
    )


def require_columns(path: Path, frame: pl.DataFrame, columns: Sequence[str]) -> None:
    """Refuse a table that lacks one of `columns`, naming the nearest column that it has."""
    for column in columns:
        if column not in frame.columns:
            _refuse_odd_header(path, frame)
            near = get_close_matches(column, frame.columns, n=1)
            hint = f" (there is '{near[0]}': rename it)" if near else ""
            raise InputError(
                f"{path}: column '{column}' is missing{hint}; the file needs {', '.join(columns)}"
                f" and has {', '.join(frame.columns)}"
            )


def _refuse_odd_header(path: Path, frame: pl.DataFrame) -> None:
    """Say so if the names of the columns show that the file is no CSV in UTF-8."""
    header = "".join(frame.columns)
    if "\ufffd" in header or "\0" in header:
        raise InputError(f"{path}: not a text file in UTF-8; save it as UTF-8")
    if frame.width == 1 and (mark := next((mark for mark in ";\t|" if mark in header), None)):
        raise InputError(f"{path}: the columns are separated by {mark!r}; save the file with commas")


def text_column(path: Path, frame: pl.DataFrame, column: str) -> pl.Series:
    """`column` as text; numbers are written out, lists and records refused."""
    values = frame[column]
    if values.dtype.is_nested() or values.dtype == pl.Binary:
        raise InputError(f"{path}: column '{column}' holds {values.dtype}, not text; write one text per row")
    return values.cast(pl.String)


def _load_parts(folder: Path) -> pl.DataFrame:
    """The table that a stage left in `folder`."""
    parts = shards(folder)
    if not parts:
        raise InputError(f"{folder}: a folder without part-*.parquet; give a file, or a folder of verdicts")
    return pl.read_parquet(parts)


def _load(path: Path) -> pl.DataFrame:
    kind = path.name.lower().removesuffix(".gz")
    if path.stat().st_size == 0:
        raise InputError(f"{path}: the file is empty; write at least one response into it")
    try:
        if kind.endswith(".parquet"):
            return pl.read_parquet(path)
        if kind.endswith(".csv"):
            return _load_csv(path)
        if kind.endswith((".jsonl", ".ndjson")):
            return _load_jsonl(path)
    except (pl.exceptions.PolarsError, OSError, EOFError, zlib.error) as error:
        if kind.endswith((".jsonl", ".ndjson")):
            _refuse_broken_line(path)
        first_line = str(error).strip().splitlines()[0]
        raise InputError(
            f"{path}: cannot be read as {path.suffix}: {first_line}; mend or convert the file"
        ) from error
    raise InputError(f"{path}: unknown file type '{path.suffix}'; use .csv, .jsonl or .parquet")


def _load_csv(path: Path) -> pl.DataFrame:
    try:
        return pl.read_csv(
            path, infer_schema_length=None, schema_overrides=dict.fromkeys(TEXT_COLUMNS, pl.String)
        )
    except pl.exceptions.ComputeError:
        # Polars guesses a number where it then cannot read one, such as Arabic digits: whoever uses the column
        # checks its text, and can name the row.
        return pl.read_csv(path, infer_schema=False)


def _load_jsonl(path: Path) -> pl.DataFrame:
    """The fast way, unless the file has golds, of which polars would make 3.0 out of 3, or a byte-order mark."""
    first = next(_lines(path), b"")
    if b'"gold"' in first or first.startswith(BYTE_ORDER_MARK):
        return _load_records(path)
    return pl.read_ndjson(path, infer_schema_length=None)


def _lines(path: Path) -> Iterator[bytes]:
    opener = gzip.open if path.name.lower().endswith(".gz") else open
    with opener(path, "rb") as lines:
        yield from (line for line in lines if line.strip())


def _load_records(path: Path) -> pl.DataFrame:
    """Line by line, with every number in a text column as it is written."""
    records = []
    for row, line in enumerate(_lines(path), start=1):
        record = _object(line.removeprefix(BYTE_ORDER_MARK))
        if record is None:
            raise InputError(f"{path}, row {row}: not a JSON object; write one complete object per line")
        records.append(record)
    names = dict.fromkeys(name for record in records for name in record)
    return pl.DataFrame([_column(path, name, [record.get(name) for record in records]) for name in names])


class _Digits(str):
    """A number as it is written."""

    def value(self) -> int | float:
        return int(self) if self.lstrip("-").isdigit() else float(self)


def _column(path: Path, name: str, values: list[Any]) -> pl.Series:
    if name not in TEXT_COLUMNS:
        plain = [value.value() if isinstance(value, _Digits) else value for value in values]
        return pl.Series(name, plain, strict=False)
    if name == "gold" and any(isinstance(value, list) for value in values):
        values = [value if value is None or isinstance(value, list) else [value] for value in values]
        items: Iterable[tuple[int, Any]] = (
            (row, item) for row, value in enumerate(values, start=1) for item in value or ()
        )
        dtype: Any = pl.List(pl.String)
    else:
        items = enumerate(values, start=1)
        dtype = pl.String
    for row, item in items:
        if item is not None and not isinstance(item, str):
            raise InputError(
                f"{path}, row {row}: '{name}' holds {shown(json.dumps(item))}, which is no text; write a text"
            )
    return pl.Series(name, values, dtype=dtype)


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line, parse_int=_Digits, parse_float=_Digits)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _refuse_broken_line(path: Path) -> None:
    """Name the first line that is not a JSON object, which polars does not."""
    try:
        for row, line in enumerate(_lines(path), start=1):
            if _object(line) is None:
                raise InputError(f"{path}, row {row}: not a JSON object; write one complete object per line")
    except (OSError, EOFError, zlib.error):
        return  # not even a gzip file: polars has said so


def list_of(text: str) -> list[Any] | None:
    """The list that a text writes out in JSON, or as Python prints a list of strings and numbers; else None.

    A list without commas, as numpy prints one, is not taken: Python would glue its strings together.
    """
    if len(text) > LIST_CHARACTERS:
        return None
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        if not _PYTHON_LIST.fullmatch(text.strip()):
            return None
        try:
            values = ast.literal_eval(text.strip())
        except (ValueError, SyntaxError):
            return None
    return values if isinstance(values, list) else None


def row_of(mask: pl.Series) -> int:
    """The 1-based number of the first row for which `mask` holds."""
    found = mask.fill_null(False).arg_max()
    assert found is not None, "row_of needs a mask with rows"
    return found + 1


def require_filled(path: Path, frame: pl.DataFrame, column: str) -> None:
    """Refuse empty cells in `column`."""
    empty = frame[column].is_null()
    if empty.any():
        raise InputError(
            f"{path}, row {row_of(empty)}: '{column}' is empty ({empty.sum()} such rows); fill it or remove the row"
        )


def shown(cell: object) -> str:
    """A cell for a message: short, and without control sequences that would reach the terminal."""
    return repr("" if cell is None else str(cell)[:SHOWN_CHARACTERS])


def boolean_column(path: Path, frame: pl.DataFrame, column: str) -> pl.Series:
    """`column` as booleans, accepting 0/1, true/false, yes/no and correct/incorrect in any case."""
    values = frame[column]
    if values.dtype == pl.Boolean:
        return values
    words = text_column(path, frame, column).str.strip_chars().str.to_lowercase()
    true, false = words.is_in(TRUE_WORDS), words.is_in(FALSE_WORDS)
    wrong = ~(true | false).fill_null(False)
    if wrong.any():
        row = row_of(wrong)
        raise InputError(
            f"{path}, row {row}: {column} {shown(values[row - 1])} is neither true nor false"
            f" ({wrong.sum()} such rows); write true or false"
        )
    return true.rename(column)


def response_rows(path: Path, frame: pl.DataFrame) -> pl.DataFrame:
    """`frame` with what identifies a response and whether it is whole, filled in where the file leaves it out.

    Without `dataset` there is one without a name; without `sample` the rows of a question are numbered in file
    order; without `finished` every response is. Refuses two rows for the same sample.
    """
    if "dataset" not in frame.columns:
        frame = frame.with_columns(pl.lit("").alias("dataset"))
    finished = (
        boolean_column(path, frame, "finished")
        if "finished" in frame.columns
        else pl.lit(True).alias("finished")
    )
    frame = frame.with_columns(_samples(path, frame), finished)
    repeated = frame.select(pl.struct(KEYS).is_duplicated()).to_series()
    if repeated.any():
        row = row_of(repeated)
        question, sample = shown(frame["question_id"][row - 1]), frame["sample"][row - 1]
        raise InputError(
            f"{path}, row {row}: question {question} has more than one row with sample {sample};"
            " number the samples of a question apart, or leave the column out"
        )
    return frame


def _samples(path: Path, frame: pl.DataFrame) -> pl.Series:
    """The samples' numbers: those of the file, else rows of a question in file order."""
    if "sample" not in frame.columns:
        counted = pl.int_range(pl.len()).over("dataset", "question_id").alias("sample")
        return frame.select(counted).to_series()
    given = text_column(path, frame, "sample").str.strip_chars()
    wrong = ~given.str.contains(r"\A[0-9]+(\.0)?\z")
    if wrong.any():
        row = row_of(wrong)
        raise InputError(
            f"{path}, row {row}: sample {shown(given[row - 1])} is not a whole number ({wrong.sum()} such rows);"
            " number the samples of a question 0, 1, …, or leave the column out"
        )
    numbers = given.str.strip_suffix(".0").cast(pl.Int64, strict=False)
    large = numbers.is_null() | (numbers > LARGEST_SAMPLE)
    if large.any():
        raise InputError(
            f"{path}, row {row_of(large)}: sample {shown(given[row_of(large) - 1])} is too large; number the samples of a"
            " question 0, 1, …, or leave the column out"
        )
    return numbers
