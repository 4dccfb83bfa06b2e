"""What a confidence target is: a pure function of a question's success rate and a response's correctness."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Target:
    """One way to say what a response's confidence should have been.

    `value(q, z, mix)` takes the question's exact success rate over all its rollouts, whether this response
    is correct, and the mixing weight; it returns an exact target in [0, 1].
    """

    name: str
    value: Callable[[Fraction, bool, Fraction], Fraction]
