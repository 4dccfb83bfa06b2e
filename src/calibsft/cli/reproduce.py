"""`calibsft reproduce`: the paper's tables and figures at playground scale, with verdicts."""

from pathlib import Path
from typing import Annotated

from typer import Option

from calibsft.cli.options import Fresh, Set
from calibsft.errors import InputError
from calibsft.settings.options import comma_separated


def reproduce(
    only: Annotated[
        str | None,
        Option(
            metavar="NAMES",
            help="Do only these experiments, comma-separated, e.g. main,lambda; --dry-run lists them.",
        ),
    ] = None,
    seeds: Annotated[
        str,
        Option(
            metavar="A,B,…",
            help="Seeds of the trainings; base model, rollouts and training sets are the same for all.",
        ),
    ] = "0,1,2",
    out: Annotated[
        Path | None,
        Option(
            metavar="FOLDER", help="Folder for the document; default: reproduction in the folder of --run."
        ),
    ] = None,
    run: Annotated[
        Path, Option("--run", metavar="FOLDER", help="Folder of the stages; an unfinished study is resumed.")
    ] = Path("runs/study"),
    recipe: Annotated[
        str, Option(metavar="NAME", help="Recipe with the settings and variants of the study.")
    ] = "study",
    overrides: Set = None,
    fresh: Fresh = False,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Only list experiments, stages, and how much work is left.")
    ] = False,
) -> None:
    """Make every table and figure of the paper again with small models, beside the paper's numbers.

    ```sh
    calibsft reproduce --only main --seeds 0
    calibsft reproduce
    ```

    The document says of every claim of the paper whether it holds here. A stage that several experiments need runs once. A
    killed study goes on where it stopped. The first example is the shortest.
    """
    from calibsft.progress import info
    from calibsft.reproduction.run import chosen, left_of, said, study_recipe
    from calibsft.reproduction.run import reproduce as perform
    from calibsft.reproduction.study import Study

    names = comma_separated(only or "")
    if only is not None and not names:
        raise InputError("--only names no experiment; name one of those that --dry-run lists")
    experiments = chosen(names)
    numbers = _numbers(seeds)
    study = Study(study_recipe(experiments, numbers, recipe, overrides or []), run, numbers)
    if dry_run:
        for one in experiments:
            print(f"{one.name}: {one.title} ({one.paper or 'ours'}), {len(one.pipelines)} models")
        left = left_of(study)
        print("stages: " + ", ".join(planned.name for planned in left.stages))
        info(said(left))
        return
    folder = out or run / "reproduction"
    command = " ".join(
        [
            "calibsft reproduce",
            *([f"--only {only}"] if only else []),
            f"--seeds {seeds}",
            *_given(recipe, overrides),
        ]
    )
    print(f"document: {perform(experiments, study, folder, command, fresh)}")


def _given(recipe: str, overrides: list[str] | None) -> list[str]:
    """Options that change the results, as they were given."""
    own = [] if recipe == "study" else [f"--recipe {recipe}"]
    return own + [f"--set '{override}'" for override in overrides or []]


def _numbers(seeds: str) -> tuple[int, ...]:
    try:
        return tuple(int(seed) for seed in comma_separated(seeds))
    except ValueError as error:
        raise InputError(f"--seeds {seeds}: seeds are whole numbers; write them as --seeds 0,1,2") from error
