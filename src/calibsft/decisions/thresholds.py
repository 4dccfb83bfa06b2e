"""Thresholds: hundredths inside the program, so that they are counted exactly, and confidences in [0, 1] outside it.

Does not test or choose any.
"""

import numpy as np
from numpy.typing import NDArray

from calibsft.files.cells import decimals
from calibsft.metrics.table import IntArray

LAST_THRESHOLD = 100
THRESHOLDS = LAST_THRESHOLD + 1
# Stands for the threshold that a response without a confidence to act on reaches.
NOT_CONFIDENT = -1


def hundredths(confidence: NDArray[np.floating]) -> IntArray:
    """The largest threshold that each confidence reaches, exactly: 0.29 is 29, and 0.2899 is 28."""
    values = decimals(confidence)
    nearest = np.rint(values * LAST_THRESHOLD)
    # 0.29 · 100 is less than 29 in floats, but 29 / 100 is the float that the text 0.29 denotes.
    return (nearest - (values < nearest / LAST_THRESHOLD)).astype(np.int64)


def as_confidence(threshold: int | None) -> float | None:
    """The threshold as a confidence: 29 is the float that the text 0.29 denotes."""
    return None if threshold is None else threshold / LAST_THRESHOLD


def accepted_from(reached: IntArray) -> IntArray:
    """How many responses each threshold accepts."""
    return np.bincount(reached[reached >= 0], minlength=THRESHOLDS)[::-1].cumsum()[::-1]
