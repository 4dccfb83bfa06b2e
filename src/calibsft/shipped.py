"""Where the files that come with the package are: inside an installed package, or beside `src` in a checkout."""

from pathlib import Path

RECIPES, LAUNCHERS, MACHINES = "recipes", "launchers", "machines"


def shipped_folders(name: str) -> list[Path]:
    """The folders of this name that exist."""
    here = Path(__file__).resolve().parent
    return [folder for folder in (here / name, here.parents[1] / name) if folder.is_dir()]
