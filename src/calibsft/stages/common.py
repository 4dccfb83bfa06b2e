"""Fields and checks that several stages share."""

from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field

from calibsft.artifacts import MANIFEST, read_manifest
from calibsft.engines import EngineSection
from calibsft.errors import InputError
from calibsft.files.dialect import COLUMNS_HELP, SCALE_HELP, column_texts
from calibsft.settings import Mark, Metavar

Model = Annotated[
    str,
    Mark.CONTENT,
    Metavar("MODEL"),
    Field(description="checkpoint folder or Hub id, e.g. Qwen/Qwen3-0.6B or org/name@revision"),
]
# An engine's settings are about speed and memory; what else decides its responses is an input of the stage.
Engine = Annotated[EngineSection, Mark.ADJUSTABLE]
Verdicts = Annotated[
    Path | None,
    Mark.CONTENT,
    Metavar("FOLDER"),
    Field(description="folder that `calibsft verify` wrote for these rollouts"),
]

ColumnNames = Annotated[
    tuple[str, ...],
    Mark.REPEATED,
    Metavar("OURS=THEIRS"),
    BeforeValidator(column_texts),
    Field(description=COLUMNS_HELP),
]
ScaleName = Annotated[str | None, Metavar("SCALE"), Field(description=SCALE_HELP)]

Variant = Annotated[
    str,
    Mark.ADJUSTABLE,
    Field(description="name for these settings in reports, to tell several trainings of one kind apart"),
]


def verified(rollouts: Path, verdicts: Path) -> dict[str, str]:
    """The content hashes of rollouts and their verdicts; verdicts on other rollouts are refused."""
    manifests = {"rollout": read_manifest(rollouts), "verify": read_manifest(verdicts)}
    hashes = {stage: str(manifest["content_hash"]) for stage, manifest in manifests.items()}
    if manifests["verify"]["inputs"].get("rollout") != hashes["rollout"]:
        raise InputError(
            f"{verdicts}: these are not verdicts on the rollouts in {rollouts}; run calibsft verify {rollouts} first"
        )
    return hashes


def rollouts_hash(rollouts: Path) -> str:
    """The content hash of the finished stage that holds `rollouts`: a rollout stage, or the evaluation that they are part of."""
    inside = (rollouts.parent / MANIFEST).is_file() and not (rollouts / MANIFEST).is_file()
    return str(read_manifest(rollouts.parent if inside else rollouts)["content_hash"])
