"""The report of a run as a stage of it, for those who write it again."""

from pathlib import Path

from calibsft.artifacts import SETTINGS
from calibsft.errors import InputError
from calibsft.pipeline.plan import REPORT, Planned, plan
from calibsft.recipe import load_recipe


def report_of(root: Path) -> Planned | None:
    """The report of the run in `root`; None while a stage that it shows is missing, or without a recipe there."""
    try:
        planned = plan(load_recipe(str(root / SETTINGS)), root)[-1]
        planned.stage.inputs()  # refuses a stage that is not finished
        return planned
    except InputError:
        return None


def belongs_to_run(path: Path) -> bool:
    """Whether `path` is the place of a run's report, or a file directly in it."""
    return any(place.name == REPORT and (place.parent / SETTINGS).is_file() for place in (path, path.parent))
