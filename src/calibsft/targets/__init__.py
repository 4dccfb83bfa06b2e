"""What each response should have said: targets, balancing, and the training set made of them."""

from calibsft.errors import unknown_name
from calibsft.targets.calibsft import CALIBSFT
from calibsft.targets.csft import CSFT
from calibsft.targets.target import Target

TARGETS: dict[str, Target] = {target.name: target for target in (CALIBSFT, CSFT)}


def get_target(name: str) -> Target:
    """The target called `name`; an unknown name is refused with the nearest right one."""
    if name not in TARGETS:
        unknown_name("target", name, list(TARGETS))
    return TARGETS[name]


__all__ = ["TARGETS", "Target", "get_target"]
