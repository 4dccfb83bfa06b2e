"""The trainers that a training of a recipe can be exported to, and that calibsft is a plug-in of."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from calibsft.integrations.verl import proof

if TYPE_CHECKING:
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
    install
        How trainer and plug-in are installed together.
    manual
        The page about it.
    """

    export: Callable[["Stage", str, Path], str]
    package: str
    proof: tuple[str, str]
    install: str
    manual: str


def _export_to_verl(stage: "Stage", name: str, folder: Path) -> str:
    # Needs libraries that a trainer's own environment may lack.
    from calibsft.integrations.verl.export import export_stage

    return export_stage(stage, name, folder)


TRAINERS: dict[str, Trainer] = {
    "verl": Trainer(
        _export_to_verl,
        "verl",
        (proof.__name__, proof.registered.__name__),
        "run pip install --no-deps calibsft in verl's own environment",
        "docs/verl.md",
    )
}
