"""What was done to a model before: read beside the checkpoint, where a stage has left it."""

from pathlib import Path
from typing import Any

from calibsft.artifacts.manifests import read_manifest
from calibsft.artifacts.names import MANIFEST, SETTINGS

# What fine-tuning is called among the steps of a lineage; RL goes by the name of its method.
CALIBSFT = "calibsft"


def lineage_of(model: str) -> dict[str, Any]:
    """The steps that made `model` and the seed of the last one, as manifests record them; none for a foreign checkpoint."""
    stage = Path(model).parent
    if not (stage / MANIFEST).is_file() or not (stage / SETTINGS).is_file():
        return {"lineage": []}
    manifest = read_manifest(stage)
    return {key: manifest[key] for key in ("lineage", "training_seed") if key in manifest} or {"lineage": []}


def trained(model: str, step: str, seed: int) -> dict[str, Any]:
    """The lineage of what a training made of `model`."""
    return {"lineage": [*lineage_of(model)["lineage"], step], "training_seed": seed}
