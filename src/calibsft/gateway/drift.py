"""Do live confidences still look like those of calibration? If not, the guarantee may no longer hold.

Counts live responses in windows and compares each full window with the counts in the policy. The distance is the largest
difference between the two cumulative shares (Kolmogorov-Smirnov); a response without a confidence ranks below all others.
By chance, about one window in a thousand exceeds the limit. Looks at confidences alone: it does not notice a model that errs
more often at the same confidences.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import log, sqrt

import numpy as np

from calibsft.decisions.policy import Policy
from calibsft.decisions.thresholds import NOT_CONFIDENT, THRESHOLDS
from calibsft.metrics.table import FloatArray

WINDOW = 500
FALSE_ALARMS = 0.001


@dataclass(slots=True)
class Drift:
    """Live confidences against those of a policy.

    Attributes
    ----------
    distance : of the last full window, in [0, 1]; None before there is one.
    limit : a larger distance means drift; None if the policy has no counts.
    """

    expected: FloatArray | None
    limit: float | None
    distance: float | None = None
    _counts: Counter[int] = field(default_factory=Counter)

    @classmethod
    def of(cls, policy: Policy) -> "Drift":
        counts = {NOT_CONFIDENT: policy.never_confident, **policy.calibrated}
        calibrated = sum(counts.values())
        if calibrated == 0:
            return cls(None, None)
        limit = sqrt(-log(FALSE_ALARMS / 2) / 2 * (1 / calibrated + 1 / WINDOW))
        return cls(_cumulative(counts), limit)

    @property
    def drifted(self) -> bool:
        return self.distance is not None and self.limit is not None and self.distance > self.limit

    def add(self, reached: int) -> bool:
        """Count one response; True if that completed a window, which is then compared."""
        if self.expected is None:
            return False
        self._counts[reached] += 1
        if self._counts.total() < WINDOW:
            return False
        self.distance = float(np.abs(_cumulative(self._counts) - self.expected).max())
        self._counts.clear()
        return True


def _cumulative(counts: Mapping[int, int]) -> FloatArray:
    """The share of responses up to each threshold; those without a confidence come first."""
    ranked = [counts.get(reached, 0) for reached in range(NOT_CONFIDENT, THRESHOLDS)]
    return np.cumsum(np.array(ranked, np.float64)) / sum(ranked)
