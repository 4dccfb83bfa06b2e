"""The shared pool of pairs: equally many questions of every success rate, each with one right and one wrong response.

For comparing targets, which all label this same pool: the choice looks at the outcomes of responses and never at a label.
Questions and responses with the smallest keyed hashes are chosen, so row order and shards do not matter. Does not label.
"""

from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from calibsft.progress import warn
from calibsft.schema import KEYS, QUESTION_KEYS
from calibsft.targets import refusals
from calibsft.targets.balance import count_groups
from calibsft.targets.ranks import as_ranks, rank, ranks_of

# The place of a question among those chosen.
PLACE = "place"


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """The responses of the pool: by success rate, then by question, the right one first."""

    rows: pl.DataFrame
    per_rate: int  # questions of each success rate


def choose_pairs(rated: pl.DataFrame, per_rate: int, seed: int, source: str) -> Pairs:
    """Choose `per_rate` questions of every success rate 1/n … (n − 1)/n, or as many as the rarest rate has.

    A question needs a well-formed right and a well-formed wrong response. `rated` are all responses that count, from
    `rate_questions`; those of all questions must be equally many.
    """
    refusals.refuse_uneven(rated, source)
    formed = rated.filter(pl.col("reason") == "ok")
    questions = _with_both(formed)
    refusals.refuse_missing_rates(questions["k"], rated["n"][0], source)
    chosen = _choose_questions(questions, per_rate, rated["n"][0], seed, source)
    return Pairs(_choose_responses(formed, chosen, seed), len(chosen) // (rated["n"][0] - 1))


def _with_both(formed: pl.DataFrame) -> pl.DataFrame:
    """The questions with a right and a wrong response, with their number `k` of right ones of all."""
    found = formed.group_by(QUESTION_KEYS).agg(pl.col("k").first(), several=pl.col("correct").n_unique() > 1)
    return found.filter("several")


def _choose_questions(questions: pl.DataFrame, per_rate: int, n: int, seed: int, source: str) -> pl.DataFrame:
    """The keys of equally many questions of each success rate, by rate and then by hash."""
    counted = count_groups(questions["k"].to_numpy() - 1, 1)
    if counted.group_size < per_rate:
        rarest = int(np.argmin(counted.sizes_G)) + 1
        warn(
            f"{source}: {counted.group_size} questions of success rate {rarest}/{n} have a well-formed right and a well-formed"
            f" wrong response, so {counted.group_size} of each rate are used instead of {per_rate}"
        )
    asked = questions.select(QUESTION_KEYS)
    ranks = as_ranks(rank(seed, 0, question) for question in asked.iter_rows())
    return asked[replace(counted, group_size=min(per_rate, counted.group_size)).draw(ranks)]


def _choose_responses(formed: pl.DataFrame, questions: pl.DataFrame, seed: int) -> pl.DataFrame:
    """Of each question the right and the wrong response with the smallest hashes, in the order of `questions`."""
    rows = formed.join(questions.with_row_index(PLACE), on=QUESTION_KEYS)
    ranks = ranks_of(rows.select(KEYS), seed, 0)
    ordered = rows[np.lexsort((ranks[:, 1], ranks[:, 0]))]
    first = ordered.unique((PLACE, "correct"), keep="first", maintain_order=True)
    return first.sort(PLACE, "correct", descending=(False, True)).drop(PLACE)
