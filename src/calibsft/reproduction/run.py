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
from calibsft.pipeline import Planned, plan, run_pipeline
from calibsft.pipeline.plan import up_to
from calibsft.progress import clock, info
from calibsft.recipe import Recipe, load_recipe
from calibsft.reproduction.document import REASONS, read_reasons, unexplained, write_study
from calibsft.reproduction.experiment import Experiment
from calibsft.reproduction.experiments import EXPERIMENTS
from calibsft.reproduction.results import results_of, verdicts_of
from calibsft.reproduction.study import Study

RECIPE = "study"


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
    """The recipe of a study: the pipelines of its experiments, with its own training seeds and those asked for.

    Its own seeds are always planned, so that a study of one seed can be continued with others.
    """
    if not seeds:
        raise InputError("--seeds names no seed; give some, as in --seeds 0,1,2")
    planned = dict.fromkeys([*load_recipe(recipe, overrides).training_seeds, *seeds])
    pipelines = dict.fromkeys(pipeline for one in experiments for pipeline in one.pipelines)
    written = ", ".join(f"[{', '.join(pipeline)}]" for pipeline in pipelines)
    given = [f"pipelines=[{written}]", f"training_seeds=[{', '.join(map(str, planned))}]"]
    return load_recipe(recipe, [*overrides, *given])


@dataclass(frozen=True, slots=True)
class Left:
    """The stages of a study, and which of them are still to do."""

    stages: list[Planned]
    todo: list[Planned]
    seconds: float | None  # how long these take at the pace of the finished ones; None if nothing is finished


def left_of(study: Study) -> Left:
    """What is left of the stages that the study's models need."""
    recipe, root = study.recipe, study.root
    stages = up_to(plan(recipe, root), study.evaluations)
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
    experiments: Sequence[Experiment], study: Study, folder: Path, command: str, fresh: bool
) -> Path:
    """Do what is left of a study and write it into `folder`; returns the path of the document."""
    left = left_of(study)
    todo = {planned.name for planned in left.todo}

    def tell(planned: Planned) -> None:
        if planned.name in todo:
            info(f"study: {said(left_of(study))}")

    info(f"study: {said(left)}")
    run_pipeline(study.recipe, study.root, fresh, until=study.evaluations, on_done=tell)
    results = results_of(study, experiments)
    verdicts = verdicts_of(results)
    document = write_study(results, verdicts, command, study.seeds, folder)
    if missing := unexplained(verdicts, read_reasons(folder)):
        info(f"claims that do not hold and have no reason in {folder / REASONS}: {', '.join(missing)}")
    return document
