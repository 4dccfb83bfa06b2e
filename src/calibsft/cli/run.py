"""`calibsft run`: a whole recipe."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from calibsft.cli.options import Fresh, HashCheck, Set
from calibsft.progress import info

if TYPE_CHECKING:
    from calibsft.recipe import Recipe


def run(
    recipe: Annotated[str, Argument(help="Name of a shipped recipe, or path of a .yaml file.")] = "tiny",
    out: Annotated[
        Path | None, Option(help="Run folder; default runs/NAME-seedSEED, or runs/NAME-seeds0-1-2.")
    ] = None,
    overrides: Set = None,
    seeds: Annotated[
        str | None,
        Option(help="Train everything with each of these seeds on the same data, e.g. 0,1,2: mean ± sd."),
    ] = None,
    fresh: Fresh = False,
    hash_check: HashCheck = True,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Print the complete recipe and the stages; do nothing.")
    ] = False,
) -> None:
    """Run a whole recipe: sample, verify, build targets, fine-tune, evaluate, report.

    Finished stages are skipped, unfinished ones resumed. Start with `calibsft run tiny`.
    """
    from calibsft.pipeline import load_checked, run_pipeline, stage_names

    chosen = [f"training_seeds=[{seeds}]"] if seeds is not None else []
    resolved = load_checked(recipe, [*(overrides or []), *chosen])
    if dry_run:
        print(resolved.to_yaml(), end="")
        info("stages: " + ", ".join(stage_names(resolved)))
        return
    from calibsft.report.runs import headline

    folder = out or Path("runs") / _folder_name(resolved)
    info(f"run: {folder}")
    run_pipeline(resolved, folder, fresh, hash_check)
    print(headline(folder))
    print(f"report: {folder / 'report' / 'report.html'}")


def _folder_name(recipe: "Recipe") -> str:
    if recipe.training_seeds in ((), (recipe.seed,)):
        return f"{recipe.name}-seed{recipe.seed}"
    return f"{recipe.name}-seeds{'-'.join(map(str, recipe.training_seeds))}"
