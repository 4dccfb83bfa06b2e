"""What each response should have said: targets, balancing, and the training set made of them."""

from calibsft.targets.calibsft import CALIBSFT
from calibsft.targets.csft import CSFT
from calibsft.targets.target import Target

TARGETS: dict[str, Target] = {target.name: target for target in (CALIBSFT, CSFT)}

__all__ = ["TARGETS", "Target"]
