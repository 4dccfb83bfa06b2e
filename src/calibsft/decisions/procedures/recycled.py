"""Fixed sequence with recycling: a sequence that reaches the next start hands its share of delta on to it.

This is the fallback procedure (Wiens, 2003): a share that was not lost to a failure may be spent again. A sequence that
is interrupted loses its share, and the next start has only its own. Certifies whatever the fixed sequence does.
"""

import numpy as np

from calibsft.decisions.procedures.procedure import Family, Procedure, Tested, walk
from calibsft.metrics.table import FloatArray


def test(p_values: FloatArray, delta: float, family: Family) -> Tested:
    share = delta / len(family.starts)
    levels, certified = np.full_like(p_values, share), np.zeros(len(p_values), dtype=bool)
    carried = 0.0
    for start, end in zip(family.starts, (*family.starts[1:], -1), strict=True):
        level = carried + share
        failed = walk(p_values <= level, start, end)
        levels[end + 1 : start + 1] = level
        certified[failed + 1 : start + 1] = True
        carried = level if failed == end else 0.0
    return levels, certified


RECYCLED = Procedure(
    "recycled", "the same, and a sequence that reaches the next start hands its share on", test
)
