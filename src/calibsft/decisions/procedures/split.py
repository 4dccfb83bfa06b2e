"""Split: a third of the questions chooses where to start, and the others test one sequence at the whole of delta.

Best for models whose confidences lie close together, where fixed starts miss them.
"""

from calibsft.decisions.procedures.fixed_sequence import test
from calibsft.decisions.procedures.procedure import Procedure

SPLIT = Procedure(
    "split",
    "a third of the questions chooses the start of one sequence, the others test it",
    test,
    choosing=1 / 3,
)
