"""Union bound, the paper's procedure: delta divided by the number of candidates, each tested on its own."""

import numpy as np

from calibsft.decisions.procedures.procedure import Family, Procedure, Tested
from calibsft.metrics.table import FloatArray


def test(p_values: FloatArray, delta: float, family: Family) -> Tested:
    levels = np.full_like(p_values, delta / family.candidates)
    return levels, p_values <= levels


UNION = Procedure("union", "the paper's: delta is divided among all thresholds", test)
