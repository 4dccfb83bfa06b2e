"""CalibSFT's mixed target: part the question's success rate, part the response's own correctness.

c* = mix * q + (1 - mix) * z, with q the success rate and z the correctness. Its mean over the rollouts of a question is q, so
every strictly proper scoring rule is still minimised there. Right and wrong responses to one question lie 1 - mix apart.
"""

from fractions import Fraction
from typing import Annotated, Literal

import polars as pl
from pydantic import Field

from calibsft.settings import Flag
from calibsft.targets.labels import once_per
from calibsft.targets.settings import TargetSettings
from calibsft.targets.target import Target


class MixedSettings(TargetSettings):
    """For targets of success rate and correctness: the weight of both."""

    # Six decimals keep exact labels within 64-bit integers.
    mix: Annotated[
        float,
        Flag("--mix", "--lambda"),
        Field(
            ge=0,
            le=1,
            multiple_of=1e-6,
            description="weight λ of the question's success rate; the response's own correctness has weight 1 − λ",
        ),
    ] = 0.5


class CalibSftSettings(MixedSettings):
    """The mixed target."""

    name: Literal["calibsft"] = "calibsft"


def mixed_target(success_rate: Fraction, correct: bool, mix: Fraction) -> Fraction:
    return mix * success_rate + (1 - mix) * int(correct)


def mixed_labels(rows: pl.DataFrame, settings: MixedSettings) -> pl.DataFrame:
    mix = Fraction(str(settings.mix))
    return once_per(rows, ("k", "n", "correct"), lambda k, n, z: mixed_target(Fraction(k, n), z, mix))


CALIBSFT = Target(
    "calibsft",
    "part the question's success rate, part the response's correctness",
    mixed_labels,
    CalibSftSettings,
)
