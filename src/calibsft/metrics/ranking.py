"""Does a higher confidence go with a right answer: AUROC, counted in integers.

A function of a `ConfidenceTable`. Does not look at the size of confidences, only at their order, so a model
can rank perfectly and still be far too sure: read it beside `calibration`.
"""

import numpy as np

from calibsft.metrics.table import ConfidenceTable


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
