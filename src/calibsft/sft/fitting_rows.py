"""Which rows of a training set are trained on where some are too long: a balanced set stays balanced."""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import polars as pl

from calibsft.tables import KEYS
from calibsft.targets.balance import balance

TARGET = ("target_numerator", "target_denominator")


def balanced_again(rows: pl.DataFrame, short: Sequence[int], seed: int) -> list[int]:
    """Those of the row numbers `short` that leave equally many rows of every target, where `rows` had that.

    Every draw is cut by itself, with the draw that balanced it. A target without a short row is gone. Rows without exact
    targets, or of an unbalanced set, all stay.
    """
    if not {*TARGET} <= set(rows.columns):
        return list(short)
    targets = [Fraction(*pair) for pair in rows.select(TARGET).iter_rows()]
    ids = list(rows.select(name for name in KEYS if name in rows.columns).iter_rows())
    draws = rows["draw"].to_list() if "draw" in rows.columns else [0] * len(rows)
    kept: list[int] = []
    for draw in dict.fromkeys(draws[row] for row in short):
        before = Counter(target for target, of in zip(targets, draws, strict=True) if of == draw)
        rest = [row for row in short if draws[row] == draw]
        if len(set(before.values())) == 1:
            chosen = balance([targets[row] for row in rest], [ids[row] for row in rest], seed, draw)
            rest = sorted(rest[place] for place in chosen.rows)
        kept += rest
    return sorted(kept)
