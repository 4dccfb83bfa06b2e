"""The lineage of a model: what was done to it, read from the manifest beside the checkpoint."""

from pathlib import Path
from typing import Any

from calibsft.artifacts.manifests import read_manifest
from calibsft.artifacts.names import MANIFEST, SETTINGS

# The name of fine-tuning in a lineage; RL has the name of its method.
CALIBSFT = "calibsft"


def lineage_of(model: str) -> dict[str, Any]:
    """The steps that made `model` and the seed of the last one, as in a manifest; no steps for a foreign checkpoint."""
    stage = Path(model).parent
    if not (stage / MANIFEST).is_file() or not (stage / SETTINGS).is_file():
        return {"lineage": []}
    manifest = read_manifest(stage)
    return {key: manifest[key] for key in ("lineage", "training_seed") if key in manifest} or {"lineage": []}


def trained(model: str, step: str, seed: int) -> dict[str, Any]:
    """The lineage of `model` after one more training step."""
    return {"lineage": [*lineage_of(model)["lineage"], step], "training_seed": seed}
