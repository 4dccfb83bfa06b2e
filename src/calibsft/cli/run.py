"""`calibsft run`: a whole recipe."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from calibsft.cli.options import Fresh, HashCheck, Set
from calibsft.errors import InputError, unknown_name
from calibsft.progress import info
from calibsft.settings.options import comma_separated
from calibsft.text import printable

if TYPE_CHECKING:
    from calibsft.recipe import Recipe


def run(
    recipe: Annotated[
        str, Argument(help="Name of a recipe that comes with calibsft, or path of a .yaml file.")
    ] = "tiny",
    out: Annotated[
        Path | None,
        Option(metavar="FOLDER", help="Run folder; default: runs/NAME-seedSEED, or runs/NAME-seeds0-1-2."),
    ] = None,
    layers: Annotated[
        list[str] | None,
        Option(
            "--with",
            metavar="FILE",
            help="Change the recipe by the settings in a .yaml file, or by ones that come with calibsft, e.g. --with 8-gpus."
            " Applied before --set. Repeatable.",
        ),
    ] = None,
    overrides: Set = None,
    seeds: Annotated[
        str | None,
        Option(
            metavar="A,B,…",
            help="Repeat all trainings with each of these seeds on the same data, e.g. 0,1,2; reports show mean ± sd.",
        ),
    ] = None,
    until: Annotated[
        str | None,
        Option(
            metavar="STAGES",
            help="Do only these stages and the ones that they need, comma-separated, e.g. rollout,eval-base; --dry-run lists"
            " the stages.",
        ),
    ] = None,
    fresh: Fresh = False,
    hash_check: HashCheck = True,
    dry_run: Annotated[
        bool,
        Option(
            "--dry-run",
            help="Only print the complete recipe, its stages and what they would cost; fails if a GPU has too little memory.",
        ),
    ] = False,
    rate: Annotated[
        float | None,
        Option(
            min=1,
            help="For the GPU-hours of --dry-run: how many tokens one GPU samples in a second, as you measured it.",
        ),
    ] = None,
) -> None:
    """Run a whole recipe: sample, verify, build targets, fine-tune, evaluate, report.

    ```sh
    calibsft run tiny
    calibsft run my-recipe.yaml --set rollout.samples=8 --dry-run
    ```

    The recipe `tiny` needs no GPU and no download. `calibsft ls recipes` lists the others. Finished stages are skipped, an
    unfinished one is resumed.
    """
    from calibsft.pipeline import load_checked

    stages = _stages(until, dry_run)
    if rate is not None and not dry_run:
        raise InputError("--rate means nothing without --dry-run; give both, or leave it out")
    chosen = [f"training_seeds=[{seeds}]"] if seeds is not None else []
    resolved = load_checked(recipe, [*(overrides or []), *chosen], layers)
    _require_known(stages, resolved)
    if dry_run:
        _print_dry(resolved, rate)
    else:
        _run(resolved, out or Path("runs") / resolved.run_name, fresh, hash_check, stages)


def _stages(until: str | None, dry_run: bool) -> tuple[str, ...]:
    """The stages that --until names; none for all."""
    if until is not None and dry_run:
        raise InputError("--until means nothing with --dry-run; give one of the two")
    stages = comma_separated(until or "")
    if until is not None and not stages:
        raise InputError("--until names no stage; name one of those that --dry-run lists")
    return stages


def _require_known(stages: tuple[str, ...], recipe: "Recipe") -> None:
    from calibsft.pipeline import stage_names

    known = stage_names(recipe)
    for name in stages:
        if name not in known:
            unknown_name("stage", name, known)


def _run(recipe: "Recipe", folder: Path, fresh: bool, hash_check: bool, stages: tuple[str, ...]) -> None:
    """Run the recipe, and print where the results are."""
    from calibsft.pipeline import run_pipeline
    from calibsft.report.runs import headline

    info(f"run: {folder}")
    run_pipeline(recipe, folder, fresh, hash_check, stages)
    if stages:
        print("finished: " + ", ".join(str(folder / name) for name in stages))
        return
    print(headline(folder))
    print(f"report: {folder / 'report' / 'report.html'}")


def _print_dry(recipe: "Recipe", rate: float | None) -> None:
    """Print a recipe that can be run, with its estimate as comments; then refuse it if it cannot fit."""
    from calibsft.estimates import estimate, estimate_lines, require_fit
    from calibsft.pipeline import stage_names

    found = estimate(recipe, rate)
    print(recipe.to_yaml(), end="")
    print("\n".join(f"# {printable(line)}".rstrip() for line in ["", *estimate_lines(found)]))
    info("stages: " + ", ".join(stage_names(recipe)))
    if found.memory is not None:
        require_fit(found.loads, found.memory)
