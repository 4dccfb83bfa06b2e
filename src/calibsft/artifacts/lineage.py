"""The lineage of a model: what was done to it, read from the manifest beside the checkpoint."""

from pathlib import Path
from typing import Any

from calibsft.artifacts.manifests import is_finished_stage, read_manifest

# The names of fine-tunings in a lineage, and what they do; RL has the name of its method.
WARMUP, CALIBSFT = "warmup", "calibsft"
# The name of the model that nothing was done to yet; in a lineage it stands only with a variant.
BASE = "base"
# Before the name of a step's variant: `calibsft@unbalanced`.
VARIANT_MARK = "@"
FINE_TUNINGS = {
    WARMUP: "Warm-up: the response format, from the model's own well-formed responses to worked examples",
    CALIBSFT: "CalibSFT: stated confidence, from targets for the model's own responses",
}


def split_step(step: str) -> tuple[str, str]:
    """The name of a step and the name of its variant, empty if it has none."""
    name, _, variant = step.partition(VARIANT_MARK)
    return name, variant


def with_variant(step: str, variant: str) -> str:
    """The step as a lineage names it: with its variant, if it has one."""
    return f"{step}{VARIANT_MARK}{variant}" if variant else step


def lineage_of(model: str) -> dict[str, Any]:
    """The steps that made `model` and the seed of the last one, as in a manifest; no steps for a foreign checkpoint."""
    return lineage_in(Path(model).parent) or {"lineage": []}


def lineage_in(folder: Path) -> dict[str, Any]:
    """The lineage in the manifest of a stage; empty if it has none."""
    manifest = _manifest(folder)
    return {key: manifest[key] for key in ("lineage", "training_seed") if key in manifest}


def step_of(table: Path) -> str:
    """What fine-tuning on a training set is called: what `calibsft build` recorded beside it, else CalibSFT."""
    return str(_manifest(table.parent).get("step", CALIBSFT))


def _manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a stage, empty for a foreign folder."""
    return read_manifest(folder) if is_finished_stage(folder) else {}


def trained(model: str, step: str, seed: int) -> dict[str, Any]:
    """The lineage of `model` after one more training step."""
    return {"lineage": [*lineage_of(model)["lineage"], step], "training_seed": seed}
