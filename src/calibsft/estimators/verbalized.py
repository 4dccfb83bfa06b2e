"""Verbalized: the confidence that the response states.

Costs nothing: it is what the model was asked to write.
"""

import polars as pl

from calibsft.estimators.estimator import Estimator, Evaluated


def estimate(evaluated: Evaluated, rows: pl.DataFrame) -> pl.DataFrame:
    return rows


VERBALIZED = Estimator("verbalized", estimate)
