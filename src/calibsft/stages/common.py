"""Fields that several stages have, and what they read alike."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from calibsft.artifacts import MANIFEST, read_manifest
from calibsft.engines import EngineSection
from calibsft.settings import Mark

Model = Annotated[str, Mark.CONTENT, Field(description="checkpoint folder or Hub id")]
# How fast responses are sampled does not shape them; what else an engine reads are inputs of the stage.
Engine = Annotated[EngineSection, Mark.ADJUSTABLE]
Verdicts = Annotated[
    Path | None, Mark.CONTENT, Field(description="folder that `calibsft verify` wrote for these rollouts")
]


def rollouts_hash(rollouts: Path) -> str:
    """The content of the finished stage that holds `rollouts`: a rollout stage, or an evaluation around them."""
    inside = (rollouts.parent / MANIFEST).is_file() and not (rollouts / MANIFEST).is_file()
    return str(read_manifest(rollouts.parent if inside else rollouts)["content_hash"])
