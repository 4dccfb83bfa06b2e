"""CSFT: every response gets its question's success rate, right or wrong alike.

Cannot teach a model to tell its right answers from its wrong ones on one question.
"""

from fractions import Fraction

from calibsft.targets.target import Target


def success_rate_target(success_rate: Fraction, correct: bool, mix: Fraction) -> Fraction:
    return success_rate


CSFT = Target("csft", success_rate_target)
