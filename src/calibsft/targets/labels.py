"""Exact labels of many responses, each computed once per distinct input.

A label is a `Fraction` in computations, and two columns of integers in a table. Does not know any target.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction

import polars as pl

from calibsft.schema import LABEL


def once_per(
    rows: pl.DataFrame,
    columns: Sequence[str],
    value: Callable[..., Fraction | None],
    names: tuple[str, str] = LABEL,
) -> pl.DataFrame:
    """The exact value of every row, computed once per distinct combination of `columns`.

    Parameters
    ----------
    value
        Takes one combination, in the order of `columns`, and returns an exact value or None.
    names
        The names of the columns of numerators and denominators.

    Returns
    -------
    DataFrame
        Numerators and denominators in the order of `rows`; null if `value` returns None or a column is null.
    """
    distinct = rows.select(columns).drop_nulls().unique()
    values = [value(*inputs) for inputs in distinct.iter_rows()]
    numerators = pl.Series(names[0], [None if v is None else v.numerator for v in values], pl.Int64)
    denominators = pl.Series(names[1], [None if v is None else v.denominator for v in values], pl.Int64)
    found = distinct.with_columns(numerators, denominators)
    return rows.select(columns).join(found, on=columns, how="left", maintain_order="left").select(names)
