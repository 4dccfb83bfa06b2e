"""Which labelled responses are trained on: the balanced draws, or all of them."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibsft.errors import InputError
from calibsft.progress import warn
from calibsft.schema import KEYS, STRATUM
from calibsft.targets.balance import count_groups
from calibsft.targets.ranks import ranks_of
from calibsft.targets.settings import TargetSettings


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """The draws: the row numbers of each in the table of labelled responses, in order."""

    draws: tuple[NDArray[np.int64], ...]
    group_size: int  # how many rows a draw has of each group; 0 without balancing
    dropped: dict[Fraction, int]  # the sizes of groups that were too small

    @property
    def rows(self) -> NDArray[np.int64]:
        """The rows of all draws, one draw after the other."""
        return np.concatenate(self.draws)

    @property
    def numbers(self) -> NDArray[np.int64]:
        """The number of the draw that each of `rows` belongs to."""
        return np.repeat(np.arange(len(self.draws)), [len(rows) for rows in self.draws])


def choose(labelled: pl.DataFrame, settings: TargetSettings, seed: int, source: str) -> Drawn:
    """Draw from the labelled responses as the settings say."""
    if not settings.balance:
        return Drawn((np.arange(len(labelled)),), 0, {})
    strata, groups = _groups(labelled)
    try:
        counted = count_groups(groups, settings.min_group)
    except InputError as error:
        raise InputError(f"{source}: {error}") from error
    if counted.group_size == 1:
        warn(
            "the smallest target group has one response, so the balanced set has one per target; raise --min-group"
        )
    keys = labelled.select(KEYS)
    draws = tuple(counted.draw(ranks_of(keys, seed, draw)) for draw in range(settings.redraws))
    return Drawn(draws, counted.group_size, {strata[group]: size for group, size in counted.dropped.items()})


def _groups(labelled: pl.DataFrame) -> tuple[list[Fraction], NDArray[np.int64]]:
    """The distinct groups in ascending order, and the number of each row's group."""
    found = labelled.select(STRATUM)
    strata = sorted(Fraction(*pair) for pair in found.unique().iter_rows())
    pairs = [stratum.as_integer_ratio() for stratum in strata]
    numbered = pl.DataFrame(pairs, found.schema, orient="row").with_columns(number=pl.int_range(pl.len()))
    rows = found.join(numbered, on=STRATUM, how="left", maintain_order="left")
    return strata, rows["number"].to_numpy()
