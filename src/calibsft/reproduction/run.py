"""Runs the models of a study as one graph of stages, and writes what came out.

Experiments share every stage that they have in common: the stages are those of one recipe whose pipelines are all models.
Does not know any experiment.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from calibsft.artifacts import MANIFEST, read_manifest
from calibsft.errors import InputError, unknown_name
from calibsft.pipeline import REPORT, Planned, plan, run_pipeline
from calibsft.progress import clock, info
from calibsft.recipe import Recipe, load_recipe
from calibsft.reproduction.document import read_reasons, unexplained, write_study
from calibsft.reproduction.experiment import Experiment
from calibsft.reproduction.experiments import EXPERIMENTS
from calibsft.reproduction.results import results_of, verdicts_of
from calibsft.reproduction.study import Study

RECIPE = "study"
SEEDS = (0, 1, 2)


def chosen(names: Sequence[str]) -> list[Experiment]:
    """The experiments of these names, in the order of the paper; all of them without a name."""
    for name in names:
        if name not in EXPERIMENTS:
            unknown_name("experiment", name, list(EXPERIMENTS))
    return [one for name, one in EXPERIMENTS.items() if not names or name in names]


def study_recipe(
    experiments: Sequence[Experiment],
    seeds: Sequence[int],
    recipe: str = RECIPE,
    overrides: Sequence[str] = (),
) -> Recipe:
    """The recipe of a study: the pipelines of its experiments, each training once for every seed."""
    if not seeds:
        raise InputError("--seeds names no seed; give some, as in --seeds 0,1,2")
    pipelines = dict.fromkeys(pipeline for one in experiments for pipeline in one.pipelines)
    written = ", ".join(f"[{', '.join(pipeline)}]" for pipeline in pipelines)
    given = [f"pipelines=[{written}]", f"training_seeds=[{', '.join(map(str, seeds))}]"]
    return load_recipe(recipe, [*overrides, *given])


@dataclass(frozen=True, slots=True)
class Left:
    """The stages of a study, and which of them are still to do."""

    stages: list[Planned]
    todo: list[Planned]
    seconds: float | None  # how long these take at the pace of the finished ones; None if nothing is finished


def left_of(recipe: Recipe, root: Path) -> Left:
    # Without the report of a run: a study writes its own pages.
    stages = [planned for planned in plan(recipe, root) if planned.name != REPORT]
    done = {
        one.name: read_manifest(root / one.name) for one in stages if (root / one.name / MANIFEST).is_file()
    }
    todo = [one for one in stages if one.name not in done]
    pace: dict[str, list[float]] = {}
    for manifest in done.values():
        pace.setdefault(manifest["stage"], []).append(manifest["wall_seconds"])
    known = [sum(pace[one.stage.kind]) / len(pace[one.stage.kind]) for one in todo if one.stage.kind in pace]
    seconds = sum(known) * len(todo) / len(known) / recipe.jobs if known else None
    return Left(stages, todo, seconds)


def said(left: Left) -> str:
    """What is left to do, in one line."""
    if not left.todo:
        return f"all {len(left.stages)} stages are finished"
    kinds = Counter(one.stage.kind for one in left.todo)
    parts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    pace = f", about {clock(left.seconds)} at the pace so far" if left.seconds is not None else ""
    return f"{len(left.todo)} of {len(left.stages)} stages are left ({parts}){pace}"


def reproduce(
    experiments: Sequence[Experiment], recipe: Recipe, root: Path, folder: Path, command: str, fresh: bool
) -> Path:
    """Do what is left of a study in `root` and write it into `folder`; returns the path of the document."""
    info(f"study: {said(left_of(recipe, root))}")
    models = plan_models(recipe, root).values()
    needed = list(dict.fromkeys(model.evaluation for model in models))
    run_pipeline(
        recipe, root, fresh, until=needed, on_done=lambda: info(f"study: {said(left_of(recipe, root))}")
    )
    study = Study(recipe, root)
    results = results_of(study, experiments)
    verdicts = verdicts_of(results)
    document = write_study(results, verdicts, command, recipe.training_seeds, folder)
    if missing := unexplained(verdicts, read_reasons(folder)):
        info(f"claims that do not hold and have no reason in {folder / 'reasons.yaml'}: {', '.join(missing)}")
    return document
