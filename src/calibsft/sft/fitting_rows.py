"""Choose the training rows if some are too long, so that a balanced set stays balanced."""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import polars as pl

from calibsft.schema import KEYS, STRATUM
from calibsft.targets.balance import balance


def balanced_again(rows: pl.DataFrame, short: Sequence[int], seed: int) -> list[int]:
    """Choose from the row numbers `short` so that every stratum has equally many rows, if it had so in `rows`.

    Each draw is balanced on its own, as it was at first. A stratum without short rows is lost. All short rows of an
    unbalanced set, or of one without strata, stay.
    """
    if not {*STRATUM} <= set(rows.columns):
        return list(short)
    groups = [Fraction(*pair) for pair in rows.select(STRATUM).iter_rows()]
    ids = list(rows.select(name for name in KEYS if name in rows.columns).iter_rows())
    draws = rows["draw"].to_list() if "draw" in rows.columns else [0] * len(rows)
    kept: list[int] = []
    for draw in dict.fromkeys(draws[row] for row in short):
        before = Counter(group for group, of in zip(groups, draws, strict=True) if of == draw)
        rest = [row for row in short if draws[row] == draw]
        if len(set(before.values())) == 1:
            chosen = balance([groups[row] for row in rest], [ids[row] for row in rest], seed, draw)
            rest = sorted(rest[place] for place in chosen.rows)
        kept += rest
    return sorted(kept)
