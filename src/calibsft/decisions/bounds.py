"""Upper confidence bounds on an error rate from counts: exact, for every number of responses.

Does not know thresholds or corrections for testing many of them: that is `procedures`.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincc, betainccinv


def error_rate_upper_bound(errors: ArrayLike, n: ArrayLike, delta: ArrayLike) -> NDArray[np.float64]:
    """The one-sided Clopper-Pearson bound: the true error rate is above it with probability at most `delta`.

    Parameters
    ----------
    errors : how many of the responses were wrong, at most `n`.
    n : how many independent responses were counted.
    delta : probability of being wrong, in (0, 1); one for all, or one for each pair of counts.

    Returns
    -------
    Beta⁻¹(1 − delta; errors + 1, n − errors), in (0, 1], for each pair of counts; 1 if nothing was counted or
    everything was wrong. At this error rate, at most `errors` errors have the probability `delta`.
    """
    wrong, counted = np.asarray(errors), np.asarray(n)
    vacuous = wrong >= counted
    right = np.where(vacuous, 1, counted - wrong)
    return np.where(vacuous, 1.0, betainccinv(wrong + 1.0, right, delta))


def error_rate_p_value(errors: ArrayLike, n: ArrayLike, rate: float) -> NDArray[np.float64]:
    """The probability of at most `errors` errors among `n` if the true error rate is `rate`; 1 if nothing was counted.

    It is at most delta exactly where the upper bound for delta is at most `rate`.
    """
    wrong, counted = np.asarray(errors), np.asarray(n)
    vacuous = wrong >= counted
    right = np.where(vacuous, 1, counted - wrong)
    return np.where(vacuous, 1.0, betaincc(wrong + 1.0, right, rate))
