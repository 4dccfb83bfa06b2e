"""Rooms that are functions too: `calibsft.verify.grade` is in one, `calibsft.verify(responses=…)` calls it."""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class CallableRoom(ModuleType):
    """A package that, when called, does what the function of its name in `calibsft.api` does."""

    def __call__(self, *given: Any, **options: Any) -> Any:
        # By name, since the Python API stands above all rooms.
        return getattr(import_module("calibsft.api"), self.__name__.rpartition(".")[2])(*given, **options)


def make_callable(name: str) -> None:
    """Let the package called `name` be called."""
    sys.modules[name].__class__ = CallableRoom
