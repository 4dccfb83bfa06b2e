"""How to test many candidate thresholds and keep the guarantee: one file per procedure.

All bound the probability that any certified threshold is wrong by delta.
"""

from calibsft.decisions.procedures import fixed_sequence, recycled, split, union
from calibsft.decisions.procedures.procedure import Family, Procedure, Tested
from calibsft.errors import unknown_name

PROCEDURES: dict[str, Procedure] = {
    procedure.name: procedure
    for procedure in (union.UNION, fixed_sequence.FIXED_SEQUENCE, recycled.RECYCLED, split.SPLIT)
}
UNION, FIXED_SEQUENCE, RECYCLED, SPLIT = PROCEDURES


def get_procedure(name: str) -> Procedure:
    """The procedure of this name; others are refused."""
    if name not in PROCEDURES:
        unknown_name("procedure", name, list(PROCEDURES))
    return PROCEDURES[name]


__all__ = [
    "FIXED_SEQUENCE",
    "PROCEDURES",
    "RECYCLED",
    "SPLIT",
    "UNION",
    "Family",
    "Procedure",
    "Tested",
    "get_procedure",
]
