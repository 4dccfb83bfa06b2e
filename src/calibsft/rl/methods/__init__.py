"""The RL methods, one file each, and their settings."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from calibsft.errors import unknown_name
from calibsft.rl.method import Method
from calibsft.rl.methods.c3rl import C3RL
from calibsft.rl.methods.coca import COCA
from calibsft.rl.methods.dcpo import DCPO
from calibsft.rl.methods.redoubt import REDOUBT
from calibsft.rl.methods.rlcr import RLCR
from calibsft.rl.methods.rlvr import RLVR
from calibsft.rl.settings import MethodSettings
from calibsft.settings import OneOf, validated

METHODS: dict[str, Method] = {
    "rlvr": RLVR,
    "rlcr": RLCR,
    "coca": COCA,
    "dcpo": DCPO,
    "c3rl": C3RL,
    "redoubt": REDOUBT,
}
CHOICE = OneOf("method", METHODS)
if TYPE_CHECKING:
    MethodSection: TypeAlias = MethodSettings
else:
    MethodSection = CHOICE.section()


def get_method(name: str) -> Method:
    """The method called `name`; an unknown name is refused with the nearest right one."""
    return METHODS[name] if name in METHODS else unknown_name("RL method", name, list(METHODS))


def method_settings(name: str, given: dict[str, Any], source: str) -> MethodSettings:
    """The settings of the method called `name`; refuses those that it does not have, by name."""
    return validated(get_method(name).settings, {**given, "name": name}, source, CHOICE)


def method_of(settings: MethodSettings) -> Method:
    """The method that `settings` name, dividing its advantages as they say."""
    method = get_method(settings.name)
    return replace(method, divide_by_std=method.divide_by_std and not settings.option("mean_only"))
