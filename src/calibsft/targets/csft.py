"""CSFT: every response gets its question's success rate, right or wrong alike.

Cannot teach a model to tell its right answers from its wrong ones on one question.
"""

from fractions import Fraction

import polars as pl

from calibsft.targets.labels import once_per
from calibsft.targets.settings import TargetSettings
from calibsft.targets.target import Target


def label(rows: pl.DataFrame, settings: TargetSettings) -> pl.DataFrame:
    return once_per(rows, ("k", "n"), Fraction)


CSFT = Target("csft", "the question's success rate alone", label, TargetSettings)
