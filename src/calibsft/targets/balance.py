"""Target-balanced sampling: the same number of responses for every target value.

The rows with the smallest keyed hashes of their ids are chosen. That is a uniform draw without replacement, and it depends
only on the seed and the ids: not on row order, shards, or which other rows were loaded.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from calibsft.errors import InputError
from calibsft.targets.ranks import Ranks, as_ranks, rank

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
    """Draw as many rows from each group as the smallest remaining group has, ordered by group, then by hash.

    Each row has a group and a unique id. The draws 0, 1, … of one seed are independent. Groups with fewer rows than
    `min_group` are left out, so that they do not shrink all others to their size.
    """
    values = sorted(set(groups))
    numbers = {value: number for number, value in enumerate(values)}
    counted = count_groups(np.array([numbers[group] for group in groups], dtype=np.int64), min_group)
    rows = counted.draw(as_ranks(rank(seed, draw, row_id) for row_id in ids))
    dropped = {values[number]: count for number, count in counted.dropped.items()}
    return Balanced(tuple(rows.tolist()), counted.group_size, dropped)


@dataclass(frozen=True, slots=True, eq=False)
class CountedGroups:
    """Rows by the number of their group, ready to be drawn from."""

    groups_N: NDArray[np.integer]  # of each row, in the smallest type that holds it
    sizes_G: NDArray[np.int64]
    group_size: int  # how many rows are drawn from each
    dropped: dict[int, int]  # the sizes of groups that are too small

    def draw(self, ranks: Ranks) -> NDArray[np.int64]:
        """The rows with the smallest ranks of every group that is not too small, by group and then by rank."""
        order = _by_rank(ranks)
        # Stable, and linear for so few groups.
        order = order[np.argsort(self.groups_N[order], kind="stable")]
        starts_G = np.cumsum(self.sizes_G) - self.sizes_G
        kept = [group for group in range(len(self.sizes_G)) if group not in self.dropped]
        return np.concatenate([order[starts_G[g] : starts_G[g] + self.group_size] for g in kept])


def count_groups(groups_N: NDArray[np.int64], min_group: int) -> CountedGroups:
    """Count rows by the numbers 0, 1, … of their groups; refuses rows of which no group is large enough."""
    sizes_G = np.bincount(groups_N)
    sizes: list[int] = sizes_G.tolist()
    dropped = {number: size for number, size in enumerate(sizes) if size < min_group}
    if len(dropped) == len(sizes):
        raise InputError(
            f"no target group has {min_group} responses (the largest has {max(sizes, default=0)}); lower --min-group or add"
            " rollouts"
        )
    smallest = min(size for size in sizes if size >= min_group)
    return CountedGroups(groups_N.astype(np.min_scalar_type(len(sizes))), sizes_G, smallest, dropped)


def _by_rank(ranks: Ranks) -> NDArray[np.int64]:
    """The numbers of all rows in ascending order of their ranks."""
    first, second = ranks[:, 0], ranks[:, 1]
    order = np.argsort(first)
    tied = (np.diff(first[order]) == 0).any()
    return np.lexsort((second, first)) if tied else order
