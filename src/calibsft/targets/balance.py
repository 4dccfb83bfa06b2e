"""Target-balanced sampling: the same number of responses for every target value.

The rows with the smallest keyed hashes of their ids are chosen. That is a uniform draw without replacement, and it depends
only on the seed and the ids: not on row order, shards, or which other rows were loaded.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from hashlib import blake2b
from typing import Generic, TypeVar

from calibsft.errors import InputError

# A group: its exact value, or its number in ascending order of values.
G = TypeVar("G", int, Fraction)


@dataclass(frozen=True, slots=True)
class Balanced(Generic[G]):
    """One balanced draw: the chosen row numbers, and the groups that were too small."""

    rows: tuple[int, ...]
    group_size: int
    dropped: dict[G, int]


def balance(
    groups: Sequence[G], ids: Iterable[Hashable], seed: int, draw: int = 0, min_group: int = 1
) -> Balanced[G]:
    """Draw as many rows from each group as the smallest remaining group has.

    Parameters
    ----------
    groups, ids
        The group and the unique id of each row.
    draw
        Number of the draw: 0, 1, … give independent draws with one seed.
    min_group
        Groups with fewer rows are left out, so that they do not shrink all others to their size.

    Returns
    -------
    Balanced
        Row numbers ordered by group, then by hash.
    """
    members: dict[G, list[int]] = {}
    for row, group in enumerate(groups):
        members.setdefault(group, []).append(row)
    dropped = {group: len(rows) for group, rows in members.items() if len(rows) < min_group}
    kept = {group: rows for group, rows in sorted(members.items()) if group not in dropped}
    if not kept:
        largest = max(map(len, members.values()), default=0)
        raise InputError(
            f"no target group has {min_group} responses (the largest has {largest}); lower --min-group or add rollouts"
        )
    size = min(map(len, kept.values()))
    ranks = [_rank(seed, draw, row_id) for row_id in ids]
    chosen = [row for rows in kept.values() for row in sorted(rows, key=ranks.__getitem__)[:size]]
    return Balanced(tuple(chosen), size, dropped)


def _rank(seed: int, draw: int, row_id: Hashable) -> bytes:
    return blake2b(repr((seed, draw, row_id)).encode(), digest_size=16).digest()
