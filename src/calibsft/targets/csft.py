"""CSFT: every response gets its question's success rate, whether it is right or wrong.

Cannot teach a model to tell right from wrong answers to the same question.
"""

from fractions import Fraction

import polars as pl

from calibsft.targets.labels import once_per
from calibsft.targets.settings import TargetSettings
from calibsft.targets.target import Target


def label(rows: pl.DataFrame, settings: TargetSettings) -> pl.DataFrame:
    return once_per(rows, ("k", "n"), Fraction)


CSFT = Target("csft", "the question's success rate alone", label, TargetSettings)
