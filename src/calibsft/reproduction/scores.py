"""Reads an evaluation into quantities: every metric of every benchmark, on shared draws of the questions."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from zlib import crc32

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibsft.evaluation import ROWS, SCORED
from calibsft.metrics.bootstrap import resample
from calibsft.metrics.compare import cells_of, keyed, questions_of
from calibsft.metrics.registry import METRICS
from calibsft.reproduction.quantity import DRAWS, Quantity, mean_of

Values = NDArray[np.float64]


class Scores:
    """The scores of one table of responses, perhaps of those for which `only` is true."""

    def __init__(self, path: Path, only: pl.Expr | None = None) -> None:
        self._path, self._only = path, pl.lit(True) if only is None else only
        self._found: dict[str, dict[str, Values]] = {}

    @cached_property
    def rows(self) -> pl.DataFrame:
        """Graded responses without their text."""
        frame = pl.scan_parquet(self._path)
        known = [name for name in SCORED if name in frame.collect_schema().names()]
        return frame.filter(self._only).select(known).drop_nulls("correct").collect()

    @cached_property
    def splits(self) -> dict[str, list[str]]:
        """The benchmarks of each split, in order of their names."""
        pairs = self.rows.select("split", "dataset").unique().sort("split", "dataset")
        return {
            str(split): part["dataset"].to_list()
            for (split,), part in pairs.group_by("split", maintain_order=True)
        }

    def of(self, benchmark: str, metric: str) -> Values:
        """A metric of one benchmark: its value, then on every draw; NaN where it has none."""
        if benchmark not in self._found:
            self._found[benchmark] = self._drawn(benchmark)
        return self._found[benchmark][metric]

    def _drawn(self, benchmark: str) -> dict[str, Values]:
        rows = keyed(self.rows.filter(pl.col("dataset") == benchmark))
        cells = cells_of(rows, questions_of(rows))
        names = tuple(METRICS)
        scores = cells.scores(names)
        # By the benchmark's name: all models share its draws, and benchmarks of one size have draws of their own.
        (draws,) = resample([cells], names, DRAWS, crc32(benchmark.encode()))
        return {
            name: np.concatenate([[np.nan if scores[name] is None else scores[name]], draws[name]])
            for name in names
        }


def evaluation_scores(folder: Path, only: pl.Expr | None = None) -> Scores:
    """The scores of the confidences that an evaluated model stated."""
    return Scores(folder / ROWS, only)


def over_seeds(scores: Sequence[Scores], benchmark: str, metric: str) -> Quantity:
    return np.stack([one.of(benchmark, metric) for one in scores])


def split_mean(scores: Sequence[Scores], split: str, metric: str) -> Quantity:
    """The plain mean of a metric over the benchmarks of a split."""
    return mean_of([over_seeds(scores, name, metric) for name in scores[0].splits[split]])
