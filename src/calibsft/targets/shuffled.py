"""Shuffled: CalibSFT's labels, assigned to the labelled responses at random. A control, not a method.

A model trained on it sees the same labels equally often, but no label tells anything about its response. What such a
model gains comes from fine-tuning itself or from the spread of the labels. Keyed hashes decide, so row order and
shards do not matter. The assignment is the same for every seed, and a response may get its own label back.
"""

from typing import Literal

import numpy as np
import polars as pl

from calibsft.schema import KEYS, LABEL
from calibsft.targets.calibsft import MixedSettings, mixed_labels
from calibsft.targets.ranks import ranks_of
from calibsft.targets.target import Target

# No draw has this number, so the assignment does not depend on what is drawn.
SEED, ASSIGNMENT = 0, -1


class ShuffledSettings(MixedSettings):
    """The mixed target, assigned at random."""

    name: Literal["shuffled"] = "shuffled"


def label(rows: pl.DataFrame, settings: ShuffledSettings) -> pl.DataFrame:
    """The labels in ascending order go to the responses in the order of their hashes."""
    ranks = ranks_of(rows.select(KEYS), SEED, ASSIGNMENT)
    places = np.lexsort((ranks[:, 1], ranks[:, 0])).argsort()
    return mixed_labels(rows, settings).sort(LABEL)[places]


SHUFFLED = Target(
    "shuffled", "CalibSFT's targets assigned to the responses at random; a control", label, ShuffledSettings
)
