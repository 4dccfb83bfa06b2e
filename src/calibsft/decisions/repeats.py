"""Finds files that mix models or prompts, so that a certificate does not mix them unnoticed.

Looks for columns that distinguish the responses to one question, among those that decisions do not read. Does not choose
among the responses: `by_question` does.
"""

import shlex
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from calibsft.decisions.by_question import FIRST
from calibsft.errors import InputError
from calibsft.files.cells import some
from calibsft.files.columns import TEXT_COLUMNS
from calibsft.files.dialect import OURS, Dialect
from calibsft.files.reading import column_names, read_columns
from calibsft.metrics.selection import Where
from calibsft.schema import KEYS, QUESTION_KEYS

# The share of repeated questions that must agree; not all, because some responses may be missing.
ALMOST_ALL = 0.9
SHOWN_VALUES = 3
# These columns describe a response or a question, never its origin.
NO_ORIGIN = {*KEYS, *TEXT_COLUMNS, "confidence", "correct", "local_correct", "strong_correct", "token_ids"}


def mixture_warning(
    path: Path, where: Where, choice: str, questions: pl.Series | None = None, dialect: Dialect = OURS
) -> str | None:
    """A warning if responses of `path` to one question have different origins, else None.

    If `questions` are given, the file is read only if one of them is repeated.
    """
    if questions is not None and not questions.is_duplicated().any():
        return None
    found = origins(path, where, dialect)
    if not found:
        return None
    column, values = found[0]
    chosen = "the first of them in the file alone" if choice == FIRST else "a random mixture of them"
    one = shlex.quote(f"{column}={values[0]}")
    return (
        f"{path}: responses to one question differ in column '{column}' ({some(values, SHOWN_VALUES)}), and this holds for {chosen};"
        f" --by {column} decides for each by itself, --where {one} for one"
    )


def origins(path: Path, where: Where, dialect: Dialect = OURS) -> list[tuple[str, list[str]]]:
    """Columns that have the same values, each equally often, in nearly every repeated question; and these values.

    A column that only numbers the responses does not count.
    """
    names = column_names(path)
    dialect = dialect.at(path)
    candidates = [name for name in names if NO_ORIGIN.isdisjoint(dialect.meanings(name))]
    keys = [name for name in QUESTION_KEYS if dialect.theirs(name) in names]
    wanted = list(dict.fromkeys([*keys, *candidates, *where.columns]))
    try:
        rows = read_columns(path, wanted, dialect=dialect).cast(pl.String)
    except (InputError, pl.exceptions.PolarsError):  # lists and records name no origin
        return []
    repeated = rows.filter(where.mask(rows)).filter(pl.len().over(keys) > 1)
    found = [(name, _regular(repeated, keys, name)) for name in candidates]
    return [(name, values) for name, values in found if len(values) > 1 and not _is_numbering(values)]


def _regular(repeated: pl.DataFrame, keys: Sequence[str], column: str) -> list[str]:
    """The values that nearly every question has, each equally often."""
    questions = repeated.select(keys).n_unique()
    often = repeated.select(*keys, value=column).drop_nulls("value").group_by(*keys, "value").len("times")
    usual = often.group_by("value", "times").agg(questions=pl.len())
    regular = usual.filter(pl.col("questions") >= ALMOST_ALL * questions)
    return regular["value"].unique().sort().to_list()


def _is_numbering(values: Sequence[str]) -> bool:
    numbers = sorted(
        int(value) for value in values if value.isascii() and value.isdigit() and len(value) < 10
    )
    return len(numbers) == len(values) and numbers == list(range(numbers[0], numbers[0] + len(numbers)))
