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
    """The exact value of every row, computed once per distinct combination of `columns`, which `value` takes in their order.

    Returns the columns `names`, numerators and denominators, in the order of `rows`. They are null if `value` returns None
    or one of `columns` is null.
    """
    distinct = rows.select(columns).drop_nulls().unique()
    values = [value(*inputs) for inputs in distinct.iter_rows()]
    pairs = [(None, None) if exact is None else exact.as_integer_ratio() for exact in values]
    found = distinct.hstack(pl.DataFrame(pairs, dict.fromkeys(names, pl.Int64), orient="row"))
    return rows.select(columns).join(found, on=columns, how="left", maintain_order="left").select(names)
