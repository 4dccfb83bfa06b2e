"""Stage folders: the files of a stage, written so that a kill at any moment loses no finished work.

A stage folder holds `recipe.resolved.yaml` (the settings, written first), data files, and `manifest.json`, written last:
it exists exactly when the stage is complete. A file is written under a temporary name, synced, and renamed. Work is
planned by file name, so a rerun makes only the missing files. Resuming with changed settings is refused; the error names
the changed key.
"""

import calibsft.unix  # noqa: F401 - names the supported systems, before an import of a Unix module fails
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
    USAGE,
    shard_name,
    shards,
)
from calibsft.artifacts.records import flatten, recorded_settings
from calibsft.artifacts.stage import StageFolder
from calibsft.artifacts.writing import (
    make_folder,
    temporary_name,
    write_atomic,
    write_bytes,
    write_json,
    write_parquet,
    write_parquet_parts,
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
    "USAGE",
    "StageFolder",
    "file_hash",
    "flatten",
    "locked",
    "make_folder",
    "model_inputs",
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
    "write_parquet_parts",
    "write_text",
]
