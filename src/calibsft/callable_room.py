"""Packages that can be called: `calibsft.verify.grade` is in one, and `calibsft.verify(responses=…)` calls it."""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class CallableRoom(ModuleType):
    """A package whose call goes to the function of the same name in `calibsft.api`."""

    def __call__(self, *given: Any, **options: Any) -> Any:
        # Imported by name, since `api` is above all packages in the import order.
        return getattr(import_module("calibsft.api"), self.__name__.rpartition(".")[2])(*given, **options)


def make_callable(name: str) -> None:
    """Make the package `name` callable."""
    sys.modules[name].__class__ = CallableRoom
