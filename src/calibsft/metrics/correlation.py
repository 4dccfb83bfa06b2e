"""Is a model more accurate on datasets where it is more confident: Pearson and Spearman over per-dataset means.

Says nothing about single answers: a model can know which benchmark is hard, but not which of its answers are wrong.
"""

from collections.abc import Sequence

import numpy as np
import polars as pl

FEWEST = 3  # two points always lie on a line
DIGITS = 12  # equal means of different numbers of responses can differ in the last digits


def pearson(confidence: Sequence[float], accuracy: Sequence[float]) -> float | None:
    """Linear correlation in [-1, 1]; None with fewer than three datasets or if one side is constant."""
    sides = [np.round(values, DIGITS) for values in (confidence, accuracy)]
    if len(confidence) < FEWEST or any(np.ptp(side) == 0 for side in sides):
        return None
    return float(np.clip(np.corrcoef(sides)[0, 1], -1, 1))


def spearman(confidence: Sequence[float], accuracy: Sequence[float]) -> float | None:
    """The same for ranks; equal values share their mean rank."""
    sides = (pl.Series(np.round(values, DIGITS)) for values in (confidence, accuracy))
    return pearson(*(side.rank("average").to_list() for side in sides))
