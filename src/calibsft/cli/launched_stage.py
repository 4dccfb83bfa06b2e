"""`calibsft launched-stage`: one stage of a run, in the processes that a launcher starts for `calibsft run`."""

from pathlib import Path
from typing import Annotated

from typer import Argument

from calibsft.cli.options import Fresh, HashCheck


def launched_stage(
    root: Annotated[Path, Argument(help="Folder of the run.")],
    name: Annotated[str, Argument(help="Name of the stage.")],
    fresh: Fresh = False,
    hash_check: HashCheck = True,
) -> None:
    """Do one stage of a run. `calibsft run` starts this command by the launcher that the recipe names."""
    from calibsft.pipeline import perform_launched

    perform_launched(root, name, fresh, hash_check)
