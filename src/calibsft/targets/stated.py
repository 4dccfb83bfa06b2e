"""Stated: every response keeps the confidence that it states, for models that are to learn the format from it.

Says nothing about how sure a response should be. All well-formed responses are kept as they are; balancing would drop most
of them, because a model states few values.
"""

from fractions import Fraction
from typing import Literal

import polars as pl

from calibsft.targets.labels import once_per
from calibsft.targets.settings import TargetSettings
from calibsft.targets.target import Target

# Formats write hundredths, ninths or quarters, so that the nearest such fraction to a table's float is the exact value.
LARGEST_DENOMINATOR = 100


class StatedSettings(TargetSettings):
    """All responses, unless balancing is asked for."""

    name: Literal["stated"] = "stated"
    balance: bool = False


def label(rows: pl.DataFrame, settings: StatedSettings) -> pl.DataFrame:
    return once_per(
        rows, ("confidence",), lambda stated: Fraction(stated).limit_denominator(LARGEST_DENOMINATOR)
    )


STATED = Target(
    "stated",
    "the confidence that the response states, to learn the format from; not balanced by default",
    label,
    StatedSettings,
    imitates=True,
)
