"""The trainers that a training of a recipe can be exported to, and that calibsft is a plug-in of."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from calibsft.integrations.verl import proof
from calibsft.integrations.verl.export import export_stage
from calibsft.stages.stage import Stage


@dataclass(frozen=True, slots=True)
class Trainer:
    """Another trainer.

    Attributes
    ----------
    export
        From a training of a recipe, its name and a folder to the files that train it there; returns the command to give.
    package
        The trainer's own package.
    proof
        Module and function that return what proves that the trainer has the plug-in, or raise.
    manual
        The page about it.
    """

    export: Callable[[Stage, str, Path], str]
    package: str
    proof: tuple[str, str]
    manual: str


TRAINERS: dict[str, Trainer] = {
    "verl": Trainer(export_stage, "verl", (proof.__name__, proof.registered.__name__), "docs/verl.md")
}
