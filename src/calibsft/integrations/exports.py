"""The trainers that a training of a recipe can be exported to."""

from collections.abc import Callable
from pathlib import Path

from calibsft.integrations.verl.export import export_stage
from calibsft.stages.stage import Stage

# From a training of a recipe, its name and a folder to the files that train it there; returns the command to give.
Export = Callable[[Stage, str, Path], str]

TRAINERS: dict[str, Export] = {"verl": export_stage}
