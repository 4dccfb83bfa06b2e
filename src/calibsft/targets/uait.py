"""UaIT: every response gets the geometric mean probability of its own tokens, exp(mean token log-probability).

Labels are rounded to millionths, so that they are exact and fit 64-bit integers; no format writes finer steps. Nearly all
labels differ, so balancing groups them by what the format writes.
"""

from fractions import Fraction

import polars as pl

from calibsft.targets.labels import once_per
from calibsft.targets.settings import TargetSettings
from calibsft.targets.target import Target, on_grid

EVIDENCE = "mean-logprob"
MILLION = 10**6


def label(rows: pl.DataFrame, settings: TargetSettings) -> pl.DataFrame:
    probability = pl.col(EVIDENCE).cast(pl.Float64).exp()
    millionths = rows.select((probability * MILLION).round().cast(pl.Int64).alias("millionths"))
    return once_per(millionths, ("millionths",), lambda count: Fraction(count, MILLION))


UAIT = Target(
    "uait",
    "the geometric mean probability of the response's tokens",
    label,
    TargetSettings,
    (EVIDENCE,),
    on_grid,
)
