"""Shuffled: CalibSFT's labels, dealt to the labelled responses at random. A control, not a method.

A model trained on it sees the same labels equally often, but no label says anything of its response. What such a model gains is
owed to fine-tuning itself or to the spread of the labels. Keyed hashes deal, so row order and shards do not matter; the deal is
the same for every seed, and a response may get its own label back.
"""

from typing import Literal

import numpy as np
import polars as pl

from calibsft.schema import KEYS, LABEL
from calibsft.targets.calibsft import MixedSettings, mixed_labels
from calibsft.targets.ranks import ranks_of
from calibsft.targets.target import Target

# No draw has this number, so that what is dealt and what is drawn have nothing to do with each other.
SEED, DEAL = 0, -1


class ShuffledSettings(MixedSettings):
    """The mixed target, dealt at random."""

    name: Literal["shuffled"] = "shuffled"


def label(rows: pl.DataFrame, settings: ShuffledSettings) -> pl.DataFrame:
    """The labels in ascending order go to the responses in the order of their hashes."""
    ranks = ranks_of(rows.select(KEYS), SEED, DEAL)
    places = np.lexsort((ranks[:, 1], ranks[:, 0])).argsort()
    return mixed_labels(rows, settings).sort(LABEL)[places]


SHUFFLED = Target(
    "shuffled", "CalibSFT's targets dealt to the responses at random; a control", label, ShuffledSettings
)
