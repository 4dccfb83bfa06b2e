"""CalibSFT's mixed target: part question difficulty, part this response's own correctness.

c* = mix * q + (1 - mix) * z. Its mean over the rollouts of a question is the question's success
probability, so every strictly proper scoring rule is still minimised there; right and wrong responses of
one question lie 1 - mix apart.
"""

from fractions import Fraction

from calibsft.targets.target import Target


def mixed_target(success_rate: Fraction, correct: bool, mix: Fraction) -> Fraction:
    return mix * success_rate + (1 - mix) * int(correct)


CALIBSFT = Target("calibsft", mixed_target)
