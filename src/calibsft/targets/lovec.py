"""LoVeC: every response gets the score that a judge gave it, in tenths."""

from fractions import Fraction

import polars as pl

from calibsft.targets.labels import once_per
from calibsft.targets.settings import TargetSettings
from calibsft.targets.target import Target

BEST_SCORE = 10


def label(rows: pl.DataFrame, settings: TargetSettings) -> pl.DataFrame:
    return once_per(rows, ("judge-score_k",), lambda score: Fraction(score, BEST_SCORE))


LOVEC = Target("lovec", "the score that a judge gave the response", label, TargetSettings, ("judge-score",))
