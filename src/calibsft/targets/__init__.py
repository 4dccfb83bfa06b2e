"""The confidence that each response should have stated: targets, balancing, and the training set from them."""

from typing import TYPE_CHECKING, Any

from calibsft.errors import unknown_name
from calibsft.settings import OneOf
from calibsft.targets.calibsft import CALIBSFT
from calibsft.targets.csft import CSFT
from calibsft.targets.lovec import LOVEC
from calibsft.targets.sayself import SAYSELF
from calibsft.targets.settings import TargetSettings
from calibsft.targets.shuffled import SHUFFLED
from calibsft.targets.stated import STATED
from calibsft.targets.target import Target
from calibsft.targets.uait import UAIT

TARGETS: dict[str, Target[Any]] = {
    "calibsft": CALIBSFT,
    "csft": CSFT,
    "uait": UAIT,
    "sayself": SAYSELF,
    "lovec": LOVEC,
    "stated": STATED,
    "shuffled": SHUFFLED,
}

if TYPE_CHECKING:
    TargetSection = TargetSettings
else:
    # The settings of the target that a section names.
    TargetSection = OneOf("target", TARGETS, CALIBSFT.name, lambda target: target.description).section()


def get_target(name: str) -> Target[Any]:
    """The target called `name`; refuses an unknown name and suggests the nearest known one."""
    return TARGETS[name] if name in TARGETS else unknown_name("target", name, list(TARGETS))


__all__ = ["TARGETS", "Target", "TargetSection", "TargetSettings", "get_target"]
