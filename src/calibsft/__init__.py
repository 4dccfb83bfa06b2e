"""calibsft: teach a language model to say how sure it is, and to be right about that.

Importing the package loads nothing heavy: stages import what they need when they run.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# What `calibsft.api` offers, loaded when it is first used; `verify` and `report` are rooms that can be called.
FUNCTIONS = (
    "sample", "measure", "build", "fine_tune", "train", "evaluate", "score", "diagnose", "certify", "select", "route", "plot",
)  # fmt: skip
ROOMS = ("verify", "report")


def __getattr__(name: str) -> Any:
    if name in FUNCTIONS:
        return getattr(import_module("calibsft.api"), name)
    if name in ROOMS:
        return import_module(f"calibsft.{name}")
    raise AttributeError(f"module 'calibsft' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*globals(), *FUNCTIONS, *ROOMS])
