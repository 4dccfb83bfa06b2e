"""`calibsft export`: one training of a recipe as files for another trainer."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from calibsft.cli.options import Set
from calibsft.errors import unknown_name
from calibsft.text import printable


def export(
    trainer: Annotated[str, Argument(help="The trainer: verl.")],
    recipe: Annotated[
        str, Argument(help="Name of a recipe that comes with calibsft, or path of a .yaml file.")
    ],
    out: Annotated[
        Path | None,
        Option(
            metavar="FOLDER", help="Folder to write; default: exports/NAME-PIPELINE, e.g. exports/tiny-rlcr."
        ),
    ] = None,
    pipeline: Annotated[
        str | None,
        Option(
            metavar="STEPS",
            help="Pipeline whose last training is exported, e.g. calibsft or calibsft,rlcr; default: the recipe's last"
            " pipeline.",
        ),
    ] = None,
    run: Annotated[
        Path | None,
        Option(metavar="FOLDER", help="Run folder with the earlier stages; default: runs/NAME-seedSEED."),
    ] = None,
    model: Annotated[
        str | None,
        Option(
            metavar="MODEL", help="Checkpoint to start from: a folder or a Hub id; default: that of the run."
        ),
    ] = None,
    overrides: Set = None,
) -> None:
    """Write one training of a recipe for another trainer: its data, config and command.

    ```sh
    calibsft run my-recipe.yaml --until build
    calibsft export verl my-recipe.yaml --pipeline calibsft
    calibsft export verl my-recipe.yaml --pipeline calibsft,rlcr --model M
    ```

    The first command samples, verifies and builds. The second writes the fine-tuning, the third the RL that starts from the
    fine-tuned checkpoint M. See docs/verl.md.
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
