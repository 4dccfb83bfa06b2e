"""Finds the report stage of a run, to write the report again."""

from pathlib import Path

from calibsft.artifacts import SETTINGS
from calibsft.errors import InputError
from calibsft.pipeline.plan import REPORT, Planned, plan
from calibsft.recipe import load_recipe


def report_of(root: Path) -> Planned | None:
    """The report stage of the run in `root`; None if a stage that it shows is unfinished, or if there is no recipe."""
    try:
        planned = plan(load_recipe(str(root / SETTINGS)), root)[-1]
        planned.stage.inputs()  # refuses a stage that is not finished
        return planned
    except InputError:
        return None


def belongs_to_run(path: Path) -> bool:
    """Whether `path` is the report folder of a run, or a file directly in it."""
    return any(place.name == REPORT and (place.parent / SETTINGS).is_file() for place in (path, path.parent))
