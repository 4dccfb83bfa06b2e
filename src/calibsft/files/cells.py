"""Judges the cells of a user's table: which are text, booleans, confidences, lists or empty, and which row is wrong.

Confidences are numbers or their plain decimal text: model responses are not read here.
"""

import ast
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibsft.errors import InputError, unknown_name
from calibsft.progress import warn

TRUE_WORDS = ("true", "1", "1.0", "yes", "correct")
FALSE_WORDS = ("false", "0", "0.0", "no", "incorrect")
# An id of a chat completion is shown whole.
SHOWN_CHARACTERS = 60
MALFORMED_POLICIES = ("error", "counted", "drop")
# What happens to rows without a readable confidence, for a warning.
COUNTED, NEVER_CONFIDENT = "count as 0", "count as never confident"
# [0-9], not \d: in polars' regular expressions \d also matches Arabic and other digits.
CONFIDENCE_TEXT = r"\A-?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?\z"
# A list written as text is short: the longest of TriviaQA has 9,000 characters.
LIST_CHARACTERS = 1_000_000
_ITEM = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|-?[0-9]+(?:\.[0-9]+)?)"""
_PYTHON_LIST = re.compile(rf"\[\s*(?:{_ITEM}(?:\s*,\s*{_ITEM})*\s*)?\]", re.DOTALL)
# Complaints about a column; a `Fault` fills in its {column}, the first {cell} and how many {rows} there are.
EMPTY = "'{column}' is empty ({rows} such rows); fill it or remove the row"
NO_BOOLEAN = "{column} {cell} is neither true nor false ({rows} such rows); write true or false"


@dataclass(slots=True)
class Fault:
    """Rows with the same mistake in a column: the first row, its cell, and how many there are."""

    column: str
    row: int
    cell: object
    rows: int

    @classmethod
    def of(cls, wrong: pl.Series, cells: pl.Series) -> "Fault | None":
        """The rows for which `wrong` holds; None if there are none."""
        if not wrong.any():
            return None
        row = row_of(wrong)
        return cls(cells.name, row, cells[row - 1], int(wrong.sum()))

    def refuse(self, path: Path, complaint: str) -> NoReturn:
        """Raise the `complaint`, in which {column}, {cell} and {rows} stand for what is wrong."""
        message = complaint.format(column=self.column, cell=shown(self.cell), rows=self.rows)
        raise InputError(f"{path}, row {self.row}: {message}")


def refuse_where(path: Path, wrong: pl.Series, cells: pl.Series, complaint: str) -> None:
    """Refuse a file with rows for which `wrong` holds; see `Fault.refuse`."""
    if fault := Fault.of(wrong, cells):
        fault.refuse(path, complaint)


def row_of(mask: pl.Series) -> int:
    """The 1-based number of the first row for which `mask` holds."""
    found = mask.fill_null(False).arg_max()
    assert found is not None, "row_of needs a mask with rows"
    return found + 1


def shown(cell: object) -> str:
    """A cell for a message: short, and without control sequences that would reach the terminal."""
    return repr("" if cell is None else str(cell)[:SHOWN_CHARACTERS])


def some(values: Sequence[object] | pl.Series, most: int) -> str:
    """The first values for a message, and a sign that there are more."""
    return ", ".join([*map(shown, values[:most]), *(["…"] if len(values) > most else [])])


def require_filled(path: Path, frame: pl.DataFrame, column: str) -> None:
    """Refuse empty cells in `column`."""
    refuse_where(path, frame[column].is_null(), frame[column], EMPTY)


def text_column(path: Path, frame: pl.DataFrame, column: str) -> pl.Series:
    """`column` as text; numbers are written out; lists, records, bytes and durations are refused."""
    values = frame[column]
    if values.dtype.is_nested() or values.dtype in (pl.Binary, pl.Duration):
        raise InputError(f"{path}: column '{column}' holds {values.dtype}, not text; write one text per row")
    return values.cast(pl.String)


def optional_text(path: Path, frame: pl.DataFrame, column: str) -> pl.Series:
    """`column` as text, null where the file does not have it."""
    if column in frame.columns:
        return text_column(path, frame, column)
    return pl.Series(column, [None] * len(frame), dtype=pl.String)


def boolean_column(path: Path, frame: pl.DataFrame, column: str) -> pl.Series:
    """`column` as booleans, accepting 0/1, true/false, yes/no and correct/incorrect in any case."""
    if frame[column].dtype == pl.Boolean:
        return frame[column]
    truth = truth_column(path, frame, column)
    refuse_where(path, truth.is_null(), frame[column], NO_BOOLEAN)
    return truth


def truth_column(path: Path, frame: pl.DataFrame, column: str) -> pl.Series:
    """The same, with null where a cell is not a boolean."""
    if frame[column].dtype == pl.Boolean:
        return frame[column]
    words = text_column(path, frame, column).str.strip_chars().str.to_lowercase()
    true = words.is_in(TRUE_WORDS)
    return true.set(~(true | words.is_in(FALSE_WORDS)).fill_null(False), None)


def require_policy(malformed: str | None) -> None:
    """Refuse an unknown policy for confidences that cannot be read."""
    if malformed is not None and malformed not in MALFORMED_POLICIES:
        unknown_name("policy for malformed confidences", malformed, list(MALFORMED_POLICIES))


def tell_unread(path: Path, fault: Fault, of: int, unread_are: str) -> None:
    """Warn how many rows have no readable confidence, what happens to them, and how to change that.

    A user's file without a single readable confidence is refused: another column or scale was meant.
    """
    if fault.rows == of and path.is_file():
        raise InputError(
            f"{path}: none of {of:,} rows has a readable confidence (the first is row {fault.row}: {shown(fault.cell)}); name"
            " the column with --columns confidence=NAME, or the scale with --scale; if the model stated none, say --malformed"
            " counted"
        )
    warn(
        f"{path}: {fault.rows:,} of {of:,} rows have no readable confidence (the first is row {fault.row}: {shown(fault.cell)})"
        f" and {unread_are}; --malformed drop leaves them out, error refuses the file, and counted keeps them without a warning"
    )


def confidence_column(raw: pl.Series) -> pl.Series:
    """The column as the decimals that it means, null where it is not a number in [0, 1]."""
    if raw.dtype == pl.String:
        raw = raw.set(~raw.str.contains(CONFIDENCE_TEXT), None).cast(pl.Float64)
    elif not raw.dtype.is_numeric():
        return pl.Series(raw.name, [None] * len(raw), dtype=pl.Float64)
    values = raw if raw.dtype.is_float() else raw.cast(pl.Float64)
    unread = ~values.is_between(0, 1).fill_null(False)
    return pl.Series(raw.name, decimals(values.set(unread, 0).to_numpy())).set(unread, None)


def decimals(values: NDArray[Any]) -> NDArray[np.float64]:
    """Confidences as the decimals that they were meant to be, in full precision."""
    # A float32 0.7 widens to 0.69999999, on the wrong side of a bin edge; its shortest decimal is what was meant.
    if values.dtype.kind == "f" and values.dtype.itemsize < 8:
        distinct, places = np.unique(values, return_inverse=True)
        return distinct.astype(str).astype(np.float64)[places]
    return values.astype(np.float64, copy=False)


def list_of(text: str) -> list[Any] | None:
    """The list that a text writes out in JSON, or as Python prints a list of strings and numbers; else None.

    A list without commas, as numpy prints one, is not taken: Python would join its strings.
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
