"""The report of a run as a stage of it, for those who write it anew."""

from pathlib import Path

from calibsft.artifacts import SETTINGS, StageFolder
from calibsft.errors import InputError
from calibsft.pipeline.execute import folder
from calibsft.pipeline.plan import REPORT, plan
from calibsft.pipeline.stages import Run
from calibsft.recipe import load_recipe


def report_stage(root: Path) -> StageFolder | None:
    """The report stage of the run in `root`; None while a stage that it shows is missing, or without a recipe there."""
    try:
        recipe = load_recipe(str(root / SETTINGS))
        return folder(recipe, root, plan(Run(recipe, root))[-1])
    except InputError:
        return None


def belongs_to_run(path: Path) -> bool:
    """Whether `path` is the place of a run's report, or a file directly in it."""
    return any(place.name == REPORT and (place.parent / SETTINGS).is_file() for place in (path, path.parent))
