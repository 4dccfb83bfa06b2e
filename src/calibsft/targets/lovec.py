"""LoVeC: every response gets the score that a judge gave it."""

from fractions import Fraction

import polars as pl

from calibsft.targets.labels import once_per
from calibsft.targets.settings import TargetSettings
from calibsft.targets.target import Target


def label(rows: pl.DataFrame, settings: TargetSettings) -> pl.DataFrame:
    return once_per(rows, ("judge-score_k", "judge-score_n"), Fraction)


LOVEC = Target("lovec", "the score that a judge gave the response", label, TargetSettings, ("judge-score",))
