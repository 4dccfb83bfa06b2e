"""Smooth ECE (Błasiok and Nakkiran, 2023): calibration error without bins.

Small changes of confidences change it little.

The differences between confidence and correctness are spread around their confidences by a Gaussian
kernel that the ends of [0, 1] reflect; the error is the area under the absolute value of the
result. A wider kernel gives a smaller error, and smooth ECE is the error that equals the width of
its kernel, of which there is exactly one.

A reflected Gaussian spreads every cosine wave by itself, so the differences are taken apart into
waves once, and each width only weakens them. Resolution: confidences on a grid of 1/20,000, which
holds decimals of four digits exactly and puts others between its two nearest points; widths from
1/1024 up. The result is within 1e-5 of the definition, or below 1/1024 where that is.
"""

from math import ceil, log2, pi

import numpy as np

from calibsft.metrics.metric import Metric
from calibsft.metrics.table import ConfidenceTable, FloatArray

STEPS = 20_000
FINEST = 2.0**-10
# A wave that the kernel weakens by exp(-WEAKEST² / 2), about 1e-11, no longer counts.
WEAKEST = 7.0
# The area is taken from this many points or more for each wave.
POINTS_PER_WAVE = 16
TOLERANCE = 1e-13


def smooth_ece(table: ConfidenceTable) -> float:
    """ECE with a kernel for bins, as wide as the error is large (smECE), in [0, 1]; 0 is best.

    At least |mean confidence - accuracy|, and exactly that for a model that is too sure, or too
    unsure, at every confidence.
    """
    from scipy.optimize import brentq

    waves = waves_of(table)
    width = 1.0
    while error_at(waves, width) < width:
        if width == FINEST:
            return error_at(waves, width)
        width /= 2
    return float(brentq(lambda width: error_at(waves, width) - width, width, 2 * width, xtol=TOLERANCE))


def waves_of(table: ConfidenceTable) -> FloatArray:
    """Confidence less correctness, per response, as the amplitudes of cos(πmt), m = 0, 1, …"""
    from scipy.fft import dct

    gap = (table.n * table.values - table.k) / table.responses
    place = table.values * STEPS
    below = np.minimum(place.astype(np.int64), STEPS - 1)
    on_grid = np.zeros(STEPS + 1)
    np.add.at(on_grid, below, gap * (below + 1 - place))
    np.add.at(on_grid, below + 1, gap * (place - below))
    # The transform counts all but the first and the last point twice.
    on_grid[1:-1] /= 2
    waves: FloatArray = dct(on_grid, type=1)
    return waves


def error_at(waves: FloatArray, width: float) -> float:
    """The area under the absolute difference, spread by a kernel of this width."""
    from scipy.fft import dct

    count = ceil(WEAKEST / (pi * width)) + 1
    points = 2 ** ceil(log2(POINTS_PER_WAVE * count))
    spread = np.zeros(points + 1)
    spread[:count] = waves[:count] * np.exp(-((pi * width * np.arange(count)) ** 2) / 2)
    return float(np.trapezoid(np.abs(dct(spread, type=1)), dx=1 / points))


SMOOTH_ECE = Metric("smooth_ece", "Smooth ECE", "lower", of=smooth_ece)
