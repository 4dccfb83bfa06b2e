"""What a threshold does to parts of the responses: one row for every dataset, or every value of another column.

A guarantee is about all questions together, so a part may fail far more often than the budget allows. The rates
of parts are for people to look at and promise nothing. Does not choose the threshold.
"""

from collections.abc import Sequence

import polars as pl
from pydantic import Field
from scipy.stats import binom

from calibsft.errors import InputError
from calibsft.files.cells import some
from calibsft.settings import Settings

# Nobody reviews more parts than this in a policy.
MOST_SLICES = 50
SHOWN = 3
# A part is named if its rate is above the budget beyond chance, at this level shared by all parts.
SURELY = 0.05


class Slice(Settings):
    """One part of the responses.

    Attributes
    ----------
    column, value : which responses: those with this value of the column.
    responses : how many there are; `acted_on` reach the threshold.
    events : wrong answers among those; for routing, kept questions that only the strong model gets right.
    rate : events as a share of those acted on, for routing of all; None without any.
    """

    column: str
    value: str
    responses: int = Field(ge=0)
    acted_on: int = Field(ge=0)
    events: int = Field(ge=0)
    rate: float | None


def slices_of(rows: pl.DataFrame, columns: Sequence[str], share_of_all: bool) -> tuple[Slice, ...]:
    """Parts by each of some columns of `rows`, which has `acted_on` and `event` for every response."""
    return tuple(one for column in columns for one in _by(rows, column, share_of_all))


def _by(rows: pl.DataFrame, column: str, share_of_all: bool) -> list[Slice]:
    value = pl.col(column).cast(pl.String).fill_null("")
    counts = (
        rows.group_by(value=value)
        .agg(responses=pl.len(), acted_on=pl.col("acted_on").sum(), events=pl.col("event").sum())
        .sort("value")
    )
    if counts.height > MOST_SLICES:
        raise InputError(
            f"column '{column}' has {counts.height:,} values ({some(counts['value'], SHOWN)}); name one with at most"
            f" {MOST_SLICES} for --slices"
        )
    whole = "responses" if share_of_all else "acted_on"
    return [
        Slice(column=column, rate=row["events"] / row[whole] if row[whole] else None, **row)
        for row in counts.iter_rows(named=True)
    ]


def failing(slices: Sequence[Slice], budget: float, share_of_all: bool) -> list[Slice]:
    """The parts whose rate is above the budget beyond chance."""
    found = []
    for one in slices:
        n = one.responses if share_of_all else one.acted_on
        if one.events and binom.sf(one.events - 1, n, budget) < SURELY / len(slices):
            found.append(one)
    return found
