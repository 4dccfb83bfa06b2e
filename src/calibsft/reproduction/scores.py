"""Reads an evaluation into quantities: every metric of every benchmark, on shared draws of the questions."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from zlib import crc32

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibsft.evaluation import ROWS, SCORED
from calibsft.metrics.bootstrap import Cells, resample
from calibsft.metrics.compare import cells_of, keyed, questions_of
from calibsft.reproduction.quantity import DRAWS, Quantity, mean_of
from calibsft.schema import QUESTION_KEYS

Values = NDArray[np.float64]


class Scores:
    """The scores of a table of responses in one or several files, perhaps of those for which `only` is true."""

    def __init__(self, files: Path | list[Path], only: pl.Expr | None = None) -> None:
        self._files, self._only = files, pl.lit(True) if only is None else only
        self._cells: dict[str, Cells] = {}
        self._found: dict[tuple[str, str], Values] = {}

    @cached_property
    def rows(self) -> pl.DataFrame:
        """Graded responses without their text."""
        frame = pl.scan_parquet(self._files)
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
        if (benchmark, metric) not in self._found:
            self._found[benchmark, metric] = self._drawn(benchmark, metric)
        return self._found[benchmark, metric]

    def _drawn(self, benchmark: str, metric: str) -> Values:
        """Only what is asked for is drawn: some metrics take as long as all others together."""
        cells = self._counted(benchmark)
        score = cells.scores((metric,))[metric]
        # By the benchmark's name: all models share its draws, and benchmarks of one size have draws of their own.
        (draws,) = resample([cells], (metric,), DRAWS, crc32(benchmark.encode()))
        return np.concatenate([[np.nan if score is None else score], draws[metric]])

    def _counted(self, benchmark: str) -> Cells:
        if benchmark not in self._cells:
            rows = keyed(self.rows.filter(pl.col("dataset") == benchmark))
            self._cells[benchmark] = cells_of(rows, questions_of(rows))
        return self._cells[benchmark]


def evaluation_scores(folder: Path) -> Scores:
    """The scores of the confidences that an evaluated model stated."""
    return Scores(folder / ROWS)


def drawn_mean(rows: pl.DataFrame, measured: pl.Expr) -> Values:
    """The mean of something over responses: its value, then on every draw of the questions."""
    counts = rows.group_by(QUESTION_KEYS).agg(total=measured.sum(), n=pl.len()).sort(QUESTION_KEYS)
    total, n = (counts[name].to_numpy().astype(np.float64) for name in ("total", "n"))
    drawn = np.random.default_rng(0).integers(len(n), size=(DRAWS, len(n)))
    found: Values = np.concatenate([[total.sum() / n.sum()], total[drawn].sum(1) / n[drawn].sum(1)])
    return found


def over_seeds(scores: Sequence[Scores], benchmark: str, metric: str) -> Quantity:
    return np.stack([one.of(benchmark, metric) for one in scores])


def split_mean(scores: Sequence[Scores], split: str, metric: str) -> Quantity:
    """The plain mean of a metric over the benchmarks of a split."""
    return mean_of([over_seeds(scores, name, metric) for name in scores[0].splits[split]])
