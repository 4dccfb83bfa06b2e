"""One pool of several: the responses of all, each with its own key.

Responses to one question may be spread over several pools; they then count together. Does not renumber samples.
"""

from collections.abc import Mapping

import polars as pl

from calibsft.errors import InputError
from calibsft.files.cells import shown
from calibsft.schema import KEYS, QUESTION_KEYS
from calibsft.targets.pool import Pool

# The name of the pool that a row comes from.
POOL = "pool"


def merge(pools: Mapping[str, Pool]) -> Pool:
    """The pool of all responses in `pools`, which are given by name; refuses a response that is in two of them."""
    if len(pools) == 1:
        return next(iter(pools.values()))
    asked = pl.concat(_named(name, pool.questions) for name, pool in pools.items()).collect()
    shared = asked.filter(pl.col(POOL).n_unique().over(QUESTION_KEYS) > 1)
    if not shared.is_empty():
        _refuse_other_wording(shared)
        _refuse_same_responses(pools, shared)
    return Pool(
        graded=pl.concat(pool.graded for pool in pools.values()),
        parts=tuple(part for pool in pools.values() for part in pool.parts),
        keys=pl.concat(pool.keys for pool in pools.values()),
        questions=asked.lazy().drop(POOL).unique(QUESTION_KEYS),
    )


def _named(name: str, rows: pl.LazyFrame) -> pl.LazyFrame:
    return rows.with_columns(pl.lit(name).alias(POOL))


def _refuse_other_wording(shared: pl.DataFrame) -> None:
    """Refuse an id that stands for different questions."""
    several = shared.filter(pl.col("question").n_unique().over(QUESTION_KEYS) > 1)
    if not several.is_empty():
        raise InputError(
            f"question {shown(several['question_id'][0])} is another one in {_pools_of(several, QUESTION_KEYS)}; give every"
            " question its own id before sampling"
        )


def _refuse_same_responses(pools: Mapping[str, Pool], shared: pl.DataFrame) -> None:
    """Refuse the same sample of the same question in two pools."""
    found = shared.lazy().select(QUESTION_KEYS).unique()
    keys = [_named(name, pool.keys).join(found, on=QUESTION_KEYS, how="semi") for name, pool in pools.items()]
    twice = pl.concat(keys).filter(pl.len().over(KEYS) > 1).collect()
    if not twice.is_empty():
        first = twice.row(0, named=True)
        raise InputError(
            f"sample {first['sample']} of question {shown(first['question_id'])} is in {_pools_of(twice, KEYS)}"
            f" ({twice.n_unique(KEYS)} such responses); merge folders with other questions or other samples"
        )


def _pools_of(rows: pl.DataFrame, keys: tuple[str, ...]) -> str:
    """The pools that hold the first of these rows, in words."""
    same = rows.join(rows.head(1), on=keys, how="semi")
    return " and ".join(same[POOL].unique(maintain_order=True))
