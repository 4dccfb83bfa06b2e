"""Selects part of a table of responses: rows where columns have given values, or each value of a column in turn.

Used by every command that reads responses, so that `--where` and `--by` mean the same in all of them. Cells are compared
as text, as `files.reading.batches` reads them. Does not check or score rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import polars as pl

from calibsft.errors import InputError
from calibsft.files.cells import EMPTY, refuse_where, shown, some
from calibsft.files.dialect import OURS, Dialect
from calibsft.files.reading import read_columns

# Nobody reads more results than this: a column with more values is probably given by mistake.
MOST_VALUES = 100
SHOWN_VALUES = 5


@dataclass(frozen=True, slots=True)
class Where:
    """Rows whose columns have these values, given as (column, value); all rows if there are none.

    Several values of one column are alternatives.
    """

    pairs: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, texts: Sequence[str]) -> "Where":
        """Read texts such as model=small."""
        pairs = []
        for text in texts:
            column, mark, value = text.partition("=")
            if not column or not mark:
                raise InputError(
                    f"--where {shown(text)} is no column=value; write for example --where model=small"
                )
            pairs.append((column.strip(), value))
        return cls(tuple(pairs))

    def __bool__(self) -> bool:
        return bool(self.pairs)

    def __str__(self) -> str:
        return ", ".join(f"{column}={value}" for column, value in self.pairs)

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(column for column, _ in self.pairs))

    def also(self, column: str, value: str) -> "Where":
        """The same with `column` equal to `value`, in place of other values of that column."""
        others = (pair for pair in self.pairs if pair[0] != column)
        return Where((*others, (column, value)))

    def mask(self, rows: pl.DataFrame) -> pl.Series:
        """Which rows of a table are taken; it must have the columns."""
        each = [
            pl.col(column)
            .cast(pl.String)
            .fill_null("")
            .is_in([value for c, value in self.pairs if c == column])
            for column in self.columns
        ]
        return rows.select(pl.all_horizontal(pl.repeat(True, pl.len()), *each)).to_series()

    def of_file(self, path: Path, rows: pl.DataFrame, dialect: Dialect = OURS) -> pl.DataFrame:
        """The rows of a whole table that are taken; cells are compared as text, whatever types the table has."""
        if not self:
            return rows
        taken = rows.filter(self.mask(_texts(path, self.columns, dialect)))
        if taken.is_empty():
            self.refuse_none(path, dialect)
        return taken

    def refuse_none(self, path: Path, dialect: Dialect) -> NoReturn:
        """Refuse the file because no row is taken; names values that the columns have."""
        held = _texts(path, self.columns, dialect).fill_null("")
        known = "; ".join(
            f"{name} is {some(held[name].unique().sort(), SHOWN_VALUES)}" for name in self.columns
        )
        raise InputError(f"{path}: no row has {self}; choose other values with --where ({known})")


def parts(path: Path, where: Where, by: str | None, dialect: Dialect = OURS) -> dict[str, Where]:
    """The rows of each result: one for every value of the column `by`; without `by`, `where` under an empty name."""
    if by is None:
        return {"": where}
    table = _texts(path, [*where.columns, by], dialect)
    refuse_where(path, table[by].is_null() & where.mask(table), table[by], EMPTY)
    values = table.filter(where.mask(table))[by].unique().sort()
    if values.is_empty():
        where.refuse_none(path, dialect)
    if len(values) > MOST_VALUES:
        raise InputError(
            f"{path}: column '{by}' has {len(values):,} values ({some(values, SHOWN_VALUES)}), and --by gives a result for each; choose a"
            f" column with at most {MOST_VALUES}"
        )
    return {value: where.also(by, value) for value in values}


def _texts(path: Path, columns: Sequence[str], dialect: Dialect) -> pl.DataFrame:
    """The columns of a file as texts."""
    wanted = list(dict.fromkeys(columns))
    return read_columns(path, wanted, wanted, dialect).cast(pl.String)
