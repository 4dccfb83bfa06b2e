"""Does a higher confidence go with a right answer: AUROC, counted in integers, and the risk-coverage curve.

Functions of a `ConfidenceTable`. Only the order of confidences counts, not their size, so a model can rank perfectly and
still be far too sure: read it beside `calibration`.
"""

import numpy as np

from calibsft.metrics.metric import HEADLINE, Metric
from calibsft.metrics.table import ConfidenceTable, FloatArray, IntArray

# Harmonic sums of at most this many terms are added up: a difference of two digammas has fewer exact digits.
SHORT = 32


def auroc(table: ConfidenceTable) -> float | None:
    """Chance that a correct response states more confidence than an incorrect one, ties counting half.

    In [0, 1]; 1 is best, 0.5 is what a constant or random confidence gets. None when all responses are
    correct or all are incorrect: there is no pair to compare.
    """
    right, wrong = int(table.k.sum()), int(table.wrong.sum())
    if right == 0 or wrong == 0:
        return None
    wrong_below = np.cumsum(table.wrong) - table.wrong
    half_wins = int((table.k * (2 * wrong_below + table.wrong)).sum())
    return half_wins / (2 * right * wrong)


def area_under_risk_coverage(table: ConfidenceTable) -> float:
    """Mean over k of the error rate among the k most confident responses, in [0, 1]; 0 is best.

    Errors are spread evenly over the responses that state the same value, so the order of the rows does not matter.
    """
    m, w = table.n[::-1], table.wrong[::-1]
    before, errors = np.cumsum(m) - m, np.cumsum(w) - w
    # With share = w / m, the risk at the j-th response of a block is share + (errors - share * before) / (before + j).
    share = w / m
    risks = w + (errors - share * before) * _harmonic(before, m)
    return float(risks.sum()) / table.responses


def excess_area_under_risk_coverage(table: ConfidenceTable) -> float:
    """How far the area under the risk-coverage curve exceeds that of a perfect ranking; 0 is best.

    The perfect ranking puts every right response before every wrong one. Its area is exact for a finite number of
    responses, not the usual approximation.
    """
    n, wrong = table.responses, int(table.wrong.sum())
    right = n - wrong
    best = (wrong - right * float(_harmonic(np.array([right]), np.array([wrong]))[0])) / n
    return max(0.0, area_under_risk_coverage(table) - best)


def _harmonic(before: IntArray, count: IntArray) -> FloatArray:
    """1/(before + 1) + … + 1/(before + count), element by element."""
    from scipy.special import digamma

    total: FloatArray = digamma(before + count + 1.0) - digamma(before + 1.0)
    short = count <= SHORT
    total[short] = 0.0
    for step in range(1, int(count[short].max(initial=0)) + 1):
        reached = short & (count >= step)
        total[reached] += 1 / (before[reached] + step)
    return total


AUROC = Metric("auroc", "AUROC", "higher", of=auroc, views=HEADLINE)
E_AURC = Metric("e_aurc", "E-AURC", "lower", of=excess_area_under_risk_coverage)
