"""`calibsft export`: one training of a recipe as files for another trainer."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from calibsft.cli.options import Set
from calibsft.errors import unknown_name
from calibsft.text import printable


def export(
    trainer: Annotated[str, Argument(help="The trainer: verl.")],
    recipe: Annotated[str, Argument(help="Name of a shipped recipe, or path of a .yaml file.")],
    out: Annotated[
        Path | None, Option(help="Folder to write; default exports/NAME-PIPELINE, e.g. exports/tiny-rlcr.")
    ] = None,
    pipeline: Annotated[
        str | None,
        Option(
            metavar="STEPS",
            help="Steps of the model whose last training is exported, e.g. calibsft or calibsft,rlcr; default: the recipe's"
            " last pipeline.",
        ),
    ] = None,
    run: Annotated[
        Path | None, Option(help="Run folder with the stages before it; default runs/NAME-seedSEED.")
    ] = None,
    model: Annotated[
        str | None, Option(help="Checkpoint to start from, if not the run's: a folder or a Hub id.")
    ] = None,
    overrides: Set = None,
) -> None:
    """Write one training of a recipe for another trainer: data, config and command.

    `calibsft run RECIPE` samples, verifies and builds; then `calibsft export verl RECIPE --pipeline calibsft` writes the
    fine-tuning, and `--pipeline calibsft,rlcr --model CHECKPOINT` the RL from what it made. See docs/verl.md.
    """
    from calibsft.integrations.exports import TRAINERS
    from calibsft.integrations.trainings import find_training

    if trainer not in TRAINERS:
        unknown_name("trainer", trainer, list(TRAINERS))
    found = find_training(recipe, pipeline, run, model, overrides or [])
    folder = out or Path("exports") / found.name
    command = TRAINERS[trainer].export(found.stage, found.name, folder)
    print(printable(f"export: {folder}"))
    print(printable(f"train: {command}"))
