"""Responses grouped by question: one response each, and random halves of the questions.

A guarantee counts questions, so it is calibrated on one response to each. The choice must not depend on what a response
says: the first, or a random one. Does not know what is decided.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from calibsft.errors import InputError, unknown_name
from calibsft.files.cells import row_of, shown
from calibsft.metrics.evaluate import Column
from calibsft.metrics.table import IntArray

FIRST, RANDOM = "first", "random"
CHOICES = (FIRST, RANDOM)


@dataclass(frozen=True, slots=True, eq=False)
class ByQuestion:
    """Rows sorted by question.

    Attributes
    ----------
    rows : with a column `question`.
    sizes : how many responses each question has.
    choice : which response to a question is taken.
    """

    rows: pl.DataFrame
    sizes: IntArray
    choice: str

    @classmethod
    def of(cls, rows: pl.DataFrame, choice: str | None, names: Column) -> "ByQuestion":
        """Group `rows`; without a `choice`, repeated questions are refused by name, from `names`."""
        if choice is None:
            _refuse_repeated(rows["question"], names)
        elif choice not in CHOICES:
            unknown_name("choice of one response per question", choice, list(CHOICES))
        # A random choice must not depend on the order of the rows, so they are sorted by all columns.
        keys = ["question"] if choice == FIRST else rows.columns
        grouped = rows.sort(keys, maintain_order=True)
        return cls(grouped, np.bincount(grouped["question"].rle_id().to_numpy()), choice or FIRST)

    def one_each(self, seed: int, *stream: int) -> pl.DataFrame:
        """One response to every question; draws of different streams are independent."""
        return self._drawn(np.arange(len(self.sizes)), _generator(seed, *stream))

    def halves(self, count: int, seed: int) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
        """Random halves of the questions: one response to each question of the first, all responses to the others."""
        for half in range(count):
            generator = _generator(seed, half)
            chosen = generator.permutation(len(self.sizes))[: len(self.sizes) // 2]
            others = np.ones(len(self.sizes), dtype=bool)
            others[chosen] = False
            yield self._drawn(chosen, generator), self.rows.filter(pl.Series(np.repeat(others, self.sizes)))

    def _drawn(self, chosen: IntArray, generator: np.random.Generator) -> pl.DataFrame:
        first = (np.cumsum(self.sizes) - self.sizes)[chosen]
        return self.rows[first if self.choice == FIRST else first + generator.integers(self.sizes[chosen])]


def _generator(seed: int, *stream: int) -> np.random.Generator:
    if seed < 0:
        raise InputError(f"seed is {seed}; give 0 or a larger number")
    return np.random.default_rng([seed, *stream])


def _refuse_repeated(question: pl.Series, names: Column) -> None:
    """Refuse several responses to one question: they err together, so the guarantee would not hold."""
    repeated = question.is_duplicated()
    if repeated.any():
        count = question.filter(repeated).n_unique()
        name = names[row_of(repeated) - 1]
        if isinstance(name, dict):  # a record of dataset and id
            name = ", ".join(map(str, name.values()))
        raise InputError(
            f"question {shown(name)} has several responses ({count} such questions), which"
            " breaks the guarantee: they err together; keep one response per question, chosen without looking at it:"
            " --per-question first or random"
        )
