"""The confidence table: for each distinct confidence, how many responses stated it and how many of those were right.

Almost every metric is a function of this table, so the order of the rows cannot matter and responses are counted only once.
Does not check its input (`evaluate` does) and keeps no question ids.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibsft.files.cells import decimals

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class ConfidenceTable:
    """Counts per distinct confidence.

    Attributes
    ----------
    values : distinct confidences in [0, 1], ascending.
    n : responses that stated each value, all positive.
    k : how many of those were correct.
    """

    values: FloatArray
    n: IntArray
    k: IntArray

    @classmethod
    def from_rows(cls, confidence: NDArray[Any], correct: NDArray[Any]) -> "ConfidenceTable":
        """Count checked rows: `confidence` in [0, 1], `correct` 0 or 1, equal lengths."""
        # With few distinct values, the usual case, grouping by hash is twenty times faster than sorting.
        rows = pl.DataFrame({"value": confidence, "correct": np.asarray(correct, dtype=bool)})
        counts = rows.group_by("value").agg(n=pl.len(), k=pl.col("correct").sum()).sort("value")
        n, k = (counts[name].to_numpy().astype(np.int64) for name in ("n", "k"))
        return cls(decimals(counts["value"].to_numpy()), n, k)

    @classmethod
    def from_counts(cls, values: pl.DataFrame) -> "ConfidenceTable":
        """Add up `n`, how often each `confidence` occurs with each `correct`; an unreadable confidence counts as 0."""
        confidence, n = pl.col("confidence").fill_null(0), pl.col("n")
        counts = values.group_by(confidence).agg(n.sum(), k=(n * pl.col("correct")).sum()).sort("confidence")
        return cls(*(counts[name].to_numpy() for name in ("confidence", "n", "k")))

    @property
    def responses(self) -> int:
        """How many responses the table counts."""
        return int(self.n.sum())

    @property
    def wrong(self) -> IntArray:
        """Incorrect responses per value."""
        return self.n - self.k
