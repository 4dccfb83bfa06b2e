"""Which labelled responses are trained on: the balanced draws, or all of them."""

from fractions import Fraction

import polars as pl

from calibsft.errors import InputError
from calibsft.progress import warn
from calibsft.schema import KEYS, STRATUM
from calibsft.targets.balance import balance
from calibsft.targets.settings import TargetSettings


def choose(
    labelled: pl.DataFrame, settings: TargetSettings, seed: int, source: str
) -> tuple[pl.DataFrame, int, dict[Fraction, int]]:
    """The drawn rows, one block per draw; the size of a group; and the groups that were too small."""
    if not settings.balance:
        return labelled.with_columns(draw=pl.lit(0)), 0, {}
    strata, group = _groups(labelled)
    keys = labelled.select(KEYS)
    try:
        draws = [
            balance(group, keys.iter_rows(), seed, draw, settings.min_group)
            for draw in range(settings.redraws)
        ]
    except InputError as error:
        raise InputError(f"{source}: {error}") from error
    if draws[0].group_size == 1:
        warn(
            "the smallest target group has one response, so the balanced set has one per target; raise --min-group"
        )
    frames = [labelled[list(drawn.rows)].with_columns(draw=pl.lit(i)) for i, drawn in enumerate(draws)]
    dropped = {strata[number]: count for number, count in draws[0].dropped.items()}
    return pl.concat(frames), draws[0].group_size, dropped


def _groups(labelled: pl.DataFrame) -> tuple[list[Fraction], list[int]]:
    """The distinct groups in ascending order, and the number of each row's group."""
    distinct = labelled.select(STRATUM).unique()
    strata = sorted(Fraction(*pair) for pair in distinct.iter_rows())
    numbers = {value: number for number, value in enumerate(strata)}
    found = distinct.with_columns(
        number=pl.Series([numbers[Fraction(*pair)] for pair in distinct.iter_rows()])
    )
    rows = labelled.select(STRATUM).join(found, on=STRATUM, how="left", maintain_order="left")
    return strata, rows["number"].to_list()
