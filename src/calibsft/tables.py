"""Read a user's own file - CSV, JSONL or Parquet, plain or gzipped - into a checked table.

Every complaint names the file, the row (1-based, the header not counted) and the way out. Does not
interpret model text: that is `responses`.
"""

import ast
import io
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

import polars as pl

from calibsft.artifacts import shards, telling_damage
from calibsft.errors import InputError
from calibsft.packed import opened
from calibsft.schema import KEYS

TRUE_WORDS = ("true", "1", "1.0", "yes", "correct")
FALSE_WORDS = ("false", "0", "0.0", "no", "incorrect")
# Never numbers, whatever they look like: 007 is not 7, and a gold of 3 beside one of 0.5 is not 3.0.
TEXT_COLUMNS = (
    "question_id", "dataset", "question", "response", "gold", "kind", "split", "answer", "tolerance",
)  # fmt: skip
# What an evaluation leaves: one row per response.
ROWS = "rows.parquet"
SHOWN_CHARACTERS = 40
LARGEST_SAMPLE = 2**31 - 1
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Digits of the widest integers of polars; Python itself refuses thousands of them.
LONGEST_INTEGER = 38
JSONL_ENDINGS = (".jsonl", ".ndjson")
TABLE_ENDINGS = (*JSONL_ENDINGS, ".csv", ".parquet")
# A list written as text is short: the longest of TriviaQA has 9,000 characters.
LIST_CHARACTERS = 1_000_000
_ITEM = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|-?[0-9]+(?:\.[0-9]+)?)"""
_PYTHON_LIST = re.compile(rf"\[\s*(?:{_ITEM}(?:\s*,\s*{_ITEM})*\s*)?\]", re.DOTALL)


def read_table(path: Path, required: Sequence[str] = ()) -> pl.DataFrame:
    """Load `path`, a file or the folder of a stage, and make sure that it has rows and the `required` columns.

    Ids are read as text so that 007 and 7 stay different.
    """
    frame = _load(path)
    if frame.is_empty():
        refuse_no_rows(path)
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
            _refuse_ungraded(path, frame, column)
            near = get_close_matches(column, [name for name in frame.columns if name not in columns], n=1)
            hint = f" (there is '{near[0]}': rename it)" if near else ""
            raise InputError(
                f"{path}: column '{column}' is missing{hint}; the file needs {', '.join(columns)}"
                f" and has {', '.join(frame.columns)}"
            )


def _refuse_ungraded(path: Path, frame: pl.DataFrame, missing: str) -> None:
    """Point to `verify` where responses and golds are there, from which it makes what is missing."""
    if missing in ("confidence", "correct") and {"response", "gold"} <= set(frame.columns):
        raise InputError(
            f"{path}: column '{missing}' is missing, but there are responses and golds; grade them first with calibsft verify"
            f" {path} --out verdicts, and give the folder verdicts"
        )


def _refuse_odd_header(path: Path, frame: pl.DataFrame) -> None:
    """Say so if the names of the columns show that the file is no CSV in UTF-8."""
    header = "".join(frame.columns)
    if "\ufffd" in header or "\0" in header:
        raise InputError(f"{path}: not a text file in UTF-8; save it as UTF-8")
    if frame.width == 1 and (mark := next((mark for mark in ";\t|" if mark in header), None)):
        raise InputError(f"{path}: the columns are separated by {mark!r}; save the file with commas")


def text_column(path: Path, frame: pl.DataFrame, column: str) -> pl.Series:
    """`column` as text; numbers are written out, lists, records, bytes and spans of time refused."""
    values = frame[column]
    if values.dtype.is_nested() or values.dtype in (pl.Binary, pl.Duration):
        raise InputError(f"{path}: column '{column}' holds {values.dtype}, not text; write one text per row")
    return values.cast(pl.String)


def kind_of(path: Path) -> str:
    """What `path` is by its name: csv, jsonl, parquet (a stage's folder too); refuses what is missing, empty or unknown."""
    if not path.exists():
        raise InputError(f"{path}: no such file; give a .csv, .jsonl or .parquet file")
    if path.is_dir():
        return "parquet"
    if path.stat().st_size == 0:
        raise InputError(f"{path}: the file is empty; write at least one response into it")
    name = path.name.lower().removesuffix(".gz")
    if name.endswith(JSONL_ENDINGS):
        return "jsonl"
    for kind in ("csv", "parquet"):
        if name.endswith(f".{kind}"):
            return kind
    raise InputError(f"{path}: unknown file type '{path.suffix}'; use .csv, .jsonl or .parquet")


def parquet_files(path: Path) -> list[Path]:
    """The file itself, or those that a stage left in the folder: the rows of an evaluation, or parts."""
    if (path / ROWS).is_file():
        return [path / ROWS]
    files = shards(path) if path.is_dir() else [path]
    if not files:
        raise InputError(
            f"{path}: a folder without part-*.parquet or {ROWS}; give a file, a folder of verdicts, or an evaluation"
        )
    return files


@contextmanager
def telling_what_is_broken(path: Path) -> Iterator[None]:
    """Say in one sentence that a file is not what its name says, or which file of a stage's folder is damaged."""
    try:
        with telling_damage([path]):
            yield
    except (pl.exceptions.PolarsError, OSError, EOFError, zlib.error) as error:
        first_line = str(error).strip().splitlines()[0]
        kind = "Parquet" if path.is_dir() else path.suffix
        raise InputError(
            f"{path}: cannot be read as {kind}: {first_line}; fix or convert the file"
        ) from error


def _load(path: Path) -> pl.DataFrame:
    kind = kind_of(path)
    with telling_what_is_broken(path):
        if kind == "parquet":
            return pl.read_parquet(parquet_files(path), glob=False)
        if kind == "csv":
            return _load_csv(path)
        try:
            return _load_jsonl(path)
        except pl.exceptions.PolarsError:
            _refuse_broken_line(path)
            raise


def _load_csv(path: Path) -> pl.DataFrame:
    data = _content(path)
    refuse_repeated(path, header_names(data))
    try:
        return pl.read_csv(
            data, infer_schema_length=None, schema_overrides=dict.fromkeys(TEXT_COLUMNS, pl.String)
        )
    except pl.exceptions.ComputeError:
        # Polars guesses a number where it then cannot read one, such as Arabic digits: whoever uses the column
        # checks its text, and can name the row.
        return pl.read_csv(data, infer_schema=False)


def header_names(data: bytes) -> list[str]:
    """The cells of the first line of a CSV file, as they are written: polars renames those that repeat."""
    first = pl.read_csv(
        data,
        has_header=False,
        n_rows=1,
        infer_schema=False,
        encoding="utf8-lossy",
        truncate_ragged_lines=True,
    )
    cells = first.row(0)
    return [(cell or "").removeprefix("\ufeff") for cell in cells]


def refuse_repeated(path: Path, names: Sequence[str]) -> None:
    """Refuse columns of the same name: nothing says which one is meant. Columns without a name stand for nothing."""
    repeated = next((name for name in names if name and names.count(name) > 1), None)
    if repeated is not None:
        raise InputError(f"{path}: column {shown(repeated)} is there twice; remove or rename one of them")


def _load_jsonl(path: Path) -> pl.DataFrame:
    """The fast way, unless the file has golds, of which polars would make 3.0 out of 3, a byte-order mark, or a key twice."""
    data = _content(path)
    first = next((line for line in io.BytesIO(data) if line.strip()), b"")
    if b'"gold"' in first or first.startswith(BYTE_ORDER_MARK):
        return _load_records(path)
    frame = pl.read_ndjson(data, infer_schema_length=None)
    return _load_records(path) if may_repeat(data, frame.columns, frame.height) else frame


def may_repeat(data: bytes, names: Iterable[str], rows: int) -> bool:
    """Whether one of so many JSON objects may have a key twice, of which polars takes the first and Python the last."""
    return any(data.count(json.dumps(name, ensure_ascii=False).encode()) > rows for name in names)


def _content(path: Path) -> bytes:
    with opened(path) as file:
        return file.read()


def _lines(path: Path) -> Iterator[bytes]:
    with opened(path) as lines:
        yield from (line for line in lines if line.strip())


def _load_records(path: Path) -> pl.DataFrame:
    """Line by line, with every number in a text column as it is written."""
    records = []
    for row, line in enumerate(_lines(path), start=1):
        records.append(record_of(path, row, line.removeprefix(BYTE_ORDER_MARK)))
    names = dict.fromkeys(name for record in records for name in record)
    return pl.DataFrame([_column(path, name, [record.get(name) for record in records]) for name in names])


class Digits(str):
    """A number as it is written."""

    @property
    def whole(self) -> bool:
        return self.lstrip("-").isdigit()

    def value(self) -> int | float:
        return int(self) if self.whole and len(self) <= LONGEST_INTEGER else float(self)


def _column(path: Path, name: str, values: list[Any]) -> pl.Series:
    if name not in TEXT_COLUMNS:
        plain = [value.value() if isinstance(value, Digits) else value for value in values]
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


def record_of(path: Path, row: int, line: bytes) -> dict[str, Any]:
    """The JSON object in a line, its numbers as they are written."""
    try:
        found = json.loads(line, parse_int=Digits, parse_float=Digits, object_pairs_hook=_once_each)
    except _RepeatedKey as error:
        raise InputError(
            f"{path}, row {row}: the key {shown(error)} is there twice; remove or rename one"
        ) from error
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InputError(f"{path}, row {row}: not a JSON object; write one complete object per line")
    return found


class _RepeatedKey(Exception):
    """A JSON object has this key twice."""


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise _RepeatedKey(next(name for name in names if names.count(name) > 1))
    return found


def _refuse_broken_line(path: Path) -> None:
    """Name the first line that is not a JSON object, which polars does not."""
    for row, line in enumerate(_lines(path), start=1):
        record_of(path, row, line)


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
        refuse_empty(path, column, row_of(empty), int(empty.sum()))


def refuse_no_rows(path: Path) -> NoReturn:
    raise InputError(f"{path}: the file has no rows; write at least one response into it")


def refuse_empty(path: Path, column: str, row: int, rows: int) -> NoReturn:
    """Say that `column` is empty in so many rows, the first of which is `row`."""
    raise InputError(f"{path}, row {row}: '{column}' is empty ({rows} such rows); fill it or remove the row")


def refuse_word(path: Path, column: str, row: int, cell: object, rows: int) -> NoReturn:
    """Say that a cell of `column` is not a truth value."""
    raise InputError(
        f"{path}, row {row}: {column} {shown(cell)} is neither true nor false"
        f" ({rows} such rows); write true or false"
    )


def shown(cell: object) -> str:
    """A cell for a message: short, and without control sequences that would reach the terminal."""
    return repr("" if cell is None else str(cell)[:SHOWN_CHARACTERS])


def boolean_column(path: Path, frame: pl.DataFrame, column: str) -> pl.Series:
    """`column` as booleans, accepting 0/1, true/false, yes/no and correct/incorrect in any case."""
    values = frame[column]
    if values.dtype == pl.Boolean:
        return values
    truth = truth_column(path, frame, column)
    wrong = truth.is_null()
    if wrong.any():
        row = row_of(wrong)
        refuse_word(path, column, row, values[row - 1], int(wrong.sum()))
    return truth


def truth_column(path: Path, frame: pl.DataFrame, column: str) -> pl.Series:
    """The same, with null where a cell is no truth value."""
    if frame[column].dtype == pl.Boolean:
        return frame[column]
    words = text_column(path, frame, column).str.strip_chars().str.to_lowercase()
    true = words.is_in(TRUE_WORDS)
    return true.set(~(true | words.is_in(FALSE_WORDS)).fill_null(False), None)


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
