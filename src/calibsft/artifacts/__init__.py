"""Stage folders: what a stage leaves behind, written so that a kill at any moment loses nothing finished.

A stage folder holds `recipe.resolved.yaml` (the settings that shaped it, written first), data files, and
`manifest.json`, written last: it exists exactly when the stage is complete. A file is written under a
temporary name, synced, and renamed. Work is planned by name, so a rerun does what is missing and nothing
twice; resuming under changed settings is refused by the name of the changed key.
"""

import calibsft.unix  # noqa: F401 - says on which systems calibsft works, before a module of Unix is missed
from calibsft.artifacts.hashing import file_hash, model_inputs
from calibsft.artifacts.locks import locked
from calibsft.artifacts.manifests import read_manifest, telling_damage
from calibsft.artifacts.names import (
    CARD,
    COST,
    EVALS,
    GRADIENT,
    JOURNAL,
    JUDGE_CACHE,
    MANIFEST,
    QUESTIONS,
    SETTINGS,
    SUPERVISION,
    shard_name,
    shards,
)
from calibsft.artifacts.records import flatten, recorded_settings
from calibsft.artifacts.stage import StageFolder, peak_memory_mb
from calibsft.artifacts.writing import (
    TEMPORARY,
    make_folder,
    temporary_name,
    write_atomic,
    write_bytes,
    write_json,
    write_parquet,
    write_text,
)

__all__ = [
    "CARD",
    "COST",
    "EVALS",
    "GRADIENT",
    "JOURNAL",
    "JUDGE_CACHE",
    "MANIFEST",
    "QUESTIONS",
    "SETTINGS",
    "SUPERVISION",
    "TEMPORARY",
    "StageFolder",
    "file_hash",
    "flatten",
    "locked",
    "make_folder",
    "model_inputs",
    "peak_memory_mb",
    "read_manifest",
    "recorded_settings",
    "shard_name",
    "shards",
    "telling_damage",
    "temporary_name",
    "write_atomic",
    "write_bytes",
    "write_json",
    "write_parquet",
    "write_text",
]
