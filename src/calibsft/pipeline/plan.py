"""The stages of a recipe, each after those that it reads.

With several training seeds, every training and all that depends on it is done once per seed. Sampling, building and
evaluation keep the recipe's seed, so models of two seeds differ only by their trainings.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from calibsft.errors import InputError
from calibsft.pipeline.chain import Chain, chains
from calibsft.pipeline.planned import Model, Planned
from calibsft.pipeline.planner import Planner
from calibsft.recipe import Recipe, find_recipe, load_recipe
from calibsft.stages.report import ReportStage

REPORT = "report"


def plan(recipe: Recipe, root: Path) -> list[Planned]:
    """The stages of a run in `root`, in order."""
    found, _ = _planned(recipe, root)
    read = {name for planned in found.values() for name in planned.needs}
    last = tuple(name for name in found if name not in read)
    report = ReportStage(root=root, name=recipe.name, last=last)
    return [*found.values(), Planned(REPORT, report, last)]


def plan_models(recipe: Recipe, root: Path) -> dict[Chain, Model]:
    """The models of a run in `root`, with the stages of each."""
    return _planned(recipe, root)[1]


def _planned(recipe: Recipe, root: Path) -> tuple[dict[str, Planned], dict[Chain, Model]]:
    """The stages of a run by name, without its report, and its models."""
    found: dict[str, Planned] = {}
    planner = Planner(recipe, root)
    for chain in dict.fromkeys(chains(recipe)):
        for planned in planner.model(chain):
            planned.stage.check()
            launcher = recipe.launch.command(planned.stage.kind)
            found.setdefault(planned.name, replace(planned, launcher=launcher))
    return found, planner.models


def up_to(stages: Sequence[Planned], names: Sequence[str]) -> list[Planned]:
    """The stages called `names` and all that these need, in order."""
    known = {planned.name: planned for planned in stages}
    wanted: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in wanted:
            wanted.add(name)
            waiting += known[name].needs
    return [planned for planned in stages if planned.name in wanted]


def load_checked(
    name_or_path: str, overrides: Sequence[str] | None = None, layers: Sequence[str] | None = None
) -> Recipe:
    """A recipe whose stages were all planned: settings that do not fit together are refused now, not hours later."""
    recipe = load_recipe(name_or_path, overrides, layers)
    try:
        plan(recipe, Path())
    except InputError as error:
        raise InputError(f"{find_recipe(name_or_path)}: {error}") from error
    return recipe


def stage_names(recipe: Recipe) -> list[str]:
    """The names of a recipe's stages, in order."""
    return [planned.name for planned in plan(recipe, Path())]
