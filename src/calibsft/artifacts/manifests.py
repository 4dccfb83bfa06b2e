"""Reading what a finished stage wrote down about itself."""

import json
from pathlib import Path
from typing import Any

from calibsft.artifacts.names import MANIFEST
from calibsft.errors import InputError
from calibsft.schema import SCHEMA_VERSION


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a complete stage, with its schema version checked."""
    path = folder / MANIFEST
    if not path.is_file():
        raise InputError(
            f"{folder}: no {MANIFEST}, so this is not a finished stage; run the stage to its end first"
        )
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        version = manifest.get("schema_version")
    except (ValueError, AttributeError) as error:
        raise InputError(f"{path}: not a manifest; remove {folder} and rerun the stage") from error
    if version != SCHEMA_VERSION:
        raise InputError(
            f"{path}: schema version {version} is not {SCHEMA_VERSION}; use the calibsft that wrote it"
        )
    for name, size in manifest.get("bytes", {}).items():
        if not (folder / name).is_file() or (folder / name).stat().st_size != size:
            raise InputError(
                f"{folder / name}: missing or not as the manifest describes it; remove {folder} and rerun the stage"
            )
    return manifest
