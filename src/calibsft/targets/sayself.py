"""SaySelf: a correct response gets the share of the question's responses with similar reasoning.

Similar reasoning means the same cluster of embeddings, which the evidence counts. Wrong responses are not trained on.
"""

from fractions import Fraction

import polars as pl

from calibsft.targets.labels import once_per
from calibsft.targets.settings import TargetSettings
from calibsft.targets.target import Target


def share(correct: bool, alike: int, responses: int) -> Fraction | None:
    return Fraction(alike, responses) if correct else None


def label(rows: pl.DataFrame, settings: TargetSettings) -> pl.DataFrame:
    return once_per(rows, ("correct", "cluster-share_k", "cluster-share_n"), share)


SAYSELF = Target(
    "sayself",
    "the share of the question's responses that reason alike; correct responses only",
    label,
    TargetSettings,
    ("cluster-share",),
)
