"""Target-balanced sampling: the same number of responses for every target value.

Rows are chosen by the smallest keyed hash of their id, which is a uniform draw without replacement that
depends on the seed and the ids alone: not on row order, shards, or which other rows were loaded.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from hashlib import blake2b

from calibsft.errors import InputError


@dataclass(frozen=True, slots=True)
class Balanced:
    """One balanced draw: the chosen row numbers, and the groups that were too small."""

    rows: tuple[int, ...]
    group_size: int
    dropped: dict[Fraction, int]


def balance(
    targets: Sequence[Fraction], ids: Sequence[Hashable], seed: int, draw: int = 0, min_group: int = 1
) -> Balanced:
    """Draw as many rows from each target group as the smallest group has.

    Parameters
    ----------
    targets, ids
        The exact target and the unique id of each row.
    draw
        Number of the draw: 0, 1, … give independent draws under one seed.
    min_group
        Groups with fewer rows are left out instead of shrinking all others to their size.

    Returns
    -------
    Balanced
        Row numbers ordered by target, then by hash.
    """
    groups: dict[Fraction, list[int]] = {}
    for row, target in enumerate(targets):
        groups.setdefault(target, []).append(row)
    dropped = {target: len(rows) for target, rows in groups.items() if len(rows) < min_group}
    kept = {target: rows for target, rows in sorted(groups.items()) if target not in dropped}
    if not kept:
        largest = max(map(len, groups.values()), default=0)
        raise InputError(
            f"no target group has {min_group} responses (the largest has {largest}); lower --min-group or add rollouts"
        )
    size = min(map(len, kept.values()))
    chosen = [
        row for rows in kept.values() for row in sorted(rows, key=lambda r: _rank(seed, draw, ids[r]))[:size]
    ]
    return Balanced(tuple(chosen), size, dropped)


def _rank(seed: int, draw: int, row_id: Hashable) -> bytes:
    return blake2b(repr((seed, draw, row_id)).encode(), digest_size=16).digest()
