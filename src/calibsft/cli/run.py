"""`calibsft run`: a whole recipe."""

from pathlib import Path
from typing import Annotated

import typer

from calibsft.cli.options import Fresh, HashCheck, Set
from calibsft.errors import InputError
from calibsft.progress import say


def run(
    recipe: Annotated[
        str, typer.Argument(help="Name of a shipped recipe, or path of a .yaml file.")
    ] = "tiny",
    out: Annotated[Path | None, typer.Option("--out", help="Run folder; default runs/NAME-seedSEED.")] = None,
    overrides: Set = None,
    seeds: Annotated[
        str | None,
        typer.Option("--seeds", help="Run several seeds one after the other and compare, e.g. 0,1,2."),
    ] = None,
    fresh: Fresh = False,
    hash_check: HashCheck = True,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the complete recipe and the stages; do nothing.")
    ] = False,
) -> None:
    """Run a whole recipe: sample, verify, build targets, fine-tune, evaluate, report.

    Finished stages are skipped, unfinished ones resumed. Start with `calibsft run tiny`.
    """
    from calibsft.recipe import load_recipe

    if seeds is not None and out is not None:
        raise InputError(
            "--seeds makes one folder per seed and does not go with --out; leave one of them out"
        )
    chosen = (
        [load_recipe(recipe, [*(overrides or []), f"seed={seed}"]) for seed in seeds.split(",")]
        if seeds
        else [load_recipe(recipe, overrides)]
    )
    if dry_run:
        from calibsft.pipeline import stage_names

        print(chosen[0].to_yaml(), end="")
        say("stages: " + ", ".join(stage_names(chosen[0])))
        return
    folders = [out or Path("runs") / f"{r.name}-seed{r.seed}" for r in chosen]
    from calibsft.pipeline import report_order, run_pipeline

    for resolved, folder in zip(chosen, folders, strict=True):
        say(f"run: {folder}")
        run_pipeline(resolved, folder, fresh, hash_check)
    _show_runs(folders, report_order(chosen[0]))


def _show_runs(folders: list[Path], stage_order: list[str]) -> None:
    """The headline of one run, or the table of several seeds."""
    from calibsft.report.runs import seeds_report

    print(seeds_report(folders, stage_order))
    for folder in folders:
        print(f"report: {folder / 'report' / 'report.html'}")
