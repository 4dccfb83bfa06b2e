"""Fixed sequence: walk down from starts that share delta, and end at the first threshold that fails.

Thresholds behind a failure are not tested, so they cost nothing.
"""

import numpy as np

from calibsft.decisions.procedures.procedure import Family, Procedure, Tested, walk
from calibsft.metrics.table import FloatArray


def test(p_values: FloatArray, delta: float, family: Family) -> Tested:
    levels = np.full_like(p_values, delta / len(family.starts))
    passes, certified = p_values <= levels, np.zeros(len(p_values), dtype=bool)
    for start in family.starts:
        certified[walk(passes, start) + 1 : start + 1] = True
    return levels, certified


FIXED_SEQUENCE = Procedure("fixed-sequence", "walks down from fixed starts that share delta", test)
