"""`calibsft verify`: parse and grade rollouts."""

from pathlib import Path
from typing import Annotated

import typer

from calibsft.cli.options import FormatName, Fresh, Out, perform


def verify(
    rollouts: Annotated[Path, typer.Argument(help="Folder that `calibsft rollout` wrote.")],
    out: Out,
    format: FormatName = "probability",
    fresh: Fresh = False,
) -> None:
    """Parse and grade rollouts; re-grading never samples again."""
    from calibsft.artifacts import read_manifest
    from calibsft.responses.formats import get_format
    from calibsft.verify.verdicts import verify_folder

    confidence_format = get_format(format)
    inputs = {"rollout": read_manifest(rollouts)["content_hash"]}
    perform(
        out,
        "verify",
        {"format": format},
        inputs,
        lambda folder: {"verifier": verify_folder(rollouts, confidence_format, folder, "verify")},
        fresh,
    )
