"""Stage folders: what a stage leaves behind, written so that a kill at any moment loses nothing finished.

A stage folder holds `recipe.resolved.yaml` (the settings that shaped it, written first), data files, and
`manifest.json`, written last: it exists exactly when the stage is complete. A file is written under a
temporary name, synced, and renamed. Work is planned by name, so a rerun does what is missing and nothing
twice; resuming under changed settings is refused by the name of the changed key.
"""

import hashlib
import json
import os
import platform
import resource
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import yaml

from calibsft import __version__
from calibsft.errors import InputError
from calibsft.progress import FIRST_PROCESS, clock, say
from calibsft.schema import SCHEMA_VERSION

MANIFEST = "manifest.json"
SETTINGS = "recipe.resolved.yaml"
TEMPORARY = ".partial"
# What trainings leave beside their model: the journal of steps, evaluations on the way; and of a start, its gradient.
JOURNAL, EVALS, GRADIENT = "metrics.jsonl", "evals.jsonl", "gradient.json"
# What was asked, beside the responses to it.
QUESTIONS = "questions.parquet"
# Training rows token by token, with what supervised each.
SUPERVISION = "supervision.parquet"
# Describes a checkpoint and is not part of it: an evaluation adds its figures later.
CARD = "README.md"
# What a judge said, in the order in which it did: not part of a stage's content.
JUDGE_CACHE = "judge.jsonl"
ENDS = 1 << 20


def write_atomic(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file, make it durable, and give it its name in one step."""
    partial = path.with_name(path.name + TEMPORARY)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(partial)
        with partial.open("rb+") as handle:
            os.fsync(handle.fileno())
        partial.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        _forget(partial)
        raise InputError(
            f"{path}: cannot be written ({error.strerror or error}); free some space or choose another place for it"
        ) from error
    except BaseException:
        _forget(partial)
        raise


def _forget(partial: Path) -> None:
    """Remove what a failed write left, if anything can be removed there."""
    with suppress(OSError):
        partial.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_text(path: Path, text: str) -> None:
    write_atomic(path, lambda partial: partial.write_text(text, encoding="utf-8"))


def write_bytes(path: Path, data: bytes) -> None:
    write_atomic(path, lambda partial: partial.write_bytes(data))


def write_json(path: Path, data: Any) -> None:
    write_text(path, json.dumps(data, indent=2, ensure_ascii=False) + "\n")


def write_parquet(path: Path, frame: pl.DataFrame) -> None:
    write_atomic(path, lambda partial: frame.write_parquet(partial))


def file_hash(path: Path) -> str:
    """The SHA-256 of a file's content."""
    if not path.is_file():
        raise InputError(f"{path}: no such file; check the path")
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def model_inputs(model: str) -> dict[str, str]:
    """What a stage records of the checkpoint folder that it reads; nothing for a name on the Hub.

    Names, sizes and both ends of every file but the card: a replaced checkpoint is noticed without reading gigabytes.
    """
    folder = Path(model)
    if not folder.is_dir():
        return {}
    digest = hashlib.sha256()
    for file in sorted(file for file in folder.iterdir() if file.is_file() and file.name != CARD):
        digest.update(f"{file.name} {file.stat().st_size}\n".encode())
        with file.open("rb") as handle:
            digest.update(handle.read(ENDS))
            handle.seek(max(0, file.stat().st_size - ENDS))
            digest.update(handle.read(ENDS))
    return {"model": digest.hexdigest()}


def flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings as dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


@dataclass(slots=True)
class StageFolder:
    """One stage's folder.

    Attributes
    ----------
    settings
        Everything that shapes the stage's result, as plain data.
    inputs
        Content hashes of what it reads, by name.
    """

    path: Path
    stage: str
    settings: dict[str, Any]
    inputs: dict[str, str] = field(default_factory=dict)
    _began: float = field(default_factory=time.monotonic)
    _resumed: bool = False

    @property
    def complete(self) -> bool:
        return (self.path / MANIFEST).is_file()

    def begin(self) -> None:
        """Take up the folder: new, or as an earlier run with the same settings left it."""
        self.check_unchanged()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"{self.path}: cannot be made a folder ({error.strerror}); choose another one with --out"
            ) from error
        for leftover in list(self.path.rglob(f"*{TEMPORARY}")):
            _remove(leftover)
        self._resumed = self._has_work()
        write_text(self.path / SETTINGS, yaml.safe_dump(self._record(), sort_keys=False, allow_unicode=True))
        self._began = time.monotonic()

    def _record(self) -> dict[str, Any]:
        return {
            "schema_version": SCHEMA_VERSION,
            "stage": self.stage,
            "settings": self.settings,
            "inputs": self.inputs,
        }

    def check_unchanged(self) -> None:
        """Refuse a folder made under other settings or from other inputs, naming the first difference."""
        if self.path.is_dir() and not (self.path / SETTINGS).is_file() and self._has_work():
            raise InputError(
                f"{self.path}: the folder is not empty and not a stage of calibsft; choose another one with --out"
            )
        old = self._old_record()
        if old is not None and old.get("stage") != self.stage:
            raise InputError(
                f"{self.path}: the folder holds stage '{old.get('stage')}', not '{self.stage}';"
                " choose another one with --out"
            )
        difference = self.difference()
        if difference:
            raise InputError(
                f"{self.path}: {difference}; choose another folder with --out, or start this stage over with --fresh"
            )

    def difference(self) -> str | None:
        """What changed since this folder was begun, or None; a folder without any work has nothing to lose."""
        old = self._old_record()
        if old is None or not self._has_work():
            return None
        if old.get("schema_version") != SCHEMA_VERSION:
            return f"it has schema version {old.get('schema_version')}, this program writes {SCHEMA_VERSION}"
        before, now = flatten(old["settings"]), flatten(json.loads(json.dumps(self.settings)))
        for key in sorted(before.keys() | now.keys()):
            if before.get(key) != now.get(key):
                return f"{key} was {before.get(key)!r} and is now {now.get(key)!r}"
        for name in sorted(self.inputs.keys() | old["inputs"].keys()):
            if old["inputs"].get(name) != self.inputs.get(name):
                return f"its input '{name}' has changed"
        return None

    def _old_record(self) -> dict[str, Any] | None:
        """What an earlier run wrote down about this folder, None when there was none."""
        path = self.path / SETTINGS
        if not path.is_file():
            return None
        try:
            old = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (yaml.YAMLError, UnicodeDecodeError):
            old = None
        if not (isinstance(old, dict) and {"stage", "settings", "inputs"} <= old.keys()):
            raise InputError(
                f"{path}: not a settings file of calibsft, or damaged; remove {self.path} or choose another --out"
            )
        return old

    def _has_work(self) -> bool:
        """Whether there is more than the settings, or what a kill while writing them left, or empty files."""
        return any(
            file.is_file() and file.stat().st_size > 0 and file.name not in {SETTINGS, SETTINGS + TEMPORARY}
            for file in self.path.rglob("*")
        )

    def perform(self, work: Callable[[Path], dict[str, Any]], fresh: bool) -> None:
        """Let `work` fill the folder, unless an earlier run has completed it.

        Parameters
        ----------
        work
            Takes the folder and returns facts for the manifest.
        fresh
            Start over what was made under other settings or from other inputs, instead of refusing it.
        """
        if not FIRST_PROCESS:
            # The first process checks the folder and writes the manifest; the others share the work.
            if not self.complete or (fresh and self.difference()):
                work(self.path)
            return
        if fresh and self.difference():
            self.discard()
        self.check_unchanged()
        if self.complete:
            self.manifest()  # refuses a folder that lost or changed a file since
            say(f"{self.stage}: done before, skipped ({self.path})")
            return
        self.begin()
        self.finish(**work(self.path))
        say(f"{self.stage}: done in {clock(self.manifest()['wall_seconds'])}")

    def discard(self) -> None:
        """Delete the folder and everything in it, provided that it holds this stage."""
        old = self._old_record()
        if old is None or old["stage"] != self.stage:
            return  # `check_unchanged` says what is wrong with it
        shutil.rmtree(self.path, ignore_errors=True)

    def finish(self, **facts: Any) -> None:
        """Write the manifest: hashes of every file, and the cost and circumstances of the work."""
        files = [f for f in sorted(self.path.rglob("*")) if self._counts(f)]
        hashes = {str(f.relative_to(self.path)): file_hash(f) for f in files}
        write_json(
            self.path / MANIFEST,
            {
                "schema_version": SCHEMA_VERSION,
                "stage": self.stage,
                "calibsft": __version__,
                "inputs": self.inputs,
                "content_hash": hashlib.sha256(json.dumps(hashes, sort_keys=True).encode()).hexdigest(),
                "files": hashes,
                "bytes": {str(f.relative_to(self.path)): f.stat().st_size for f in files},
                "wall_seconds": round(time.monotonic() - self._began, 3),
                "resumed": self._resumed,
                "peak_memory_mb": peak_memory_mb(),
                "python": platform.python_version(),
                **facts,
            },
        )

    def _counts(self, file: Path) -> bool:
        """Data counts towards the content; settings, logs of the work and model cards do not."""
        return (
            file.is_file()
            and file.name not in {SETTINGS, MANIFEST, JOURNAL, JUDGE_CACHE, CARD}
            and "checkpoints" not in file.relative_to(self.path).parts
        )

    def manifest(self) -> dict[str, Any]:
        return read_manifest(self.path)


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


def recorded_settings(folder: Path) -> dict[str, Any]:
    """The settings that shaped a stage, as it wrote them down."""
    settings: dict[str, Any] = yaml.safe_load((folder / SETTINGS).read_text(encoding="utf-8"))["settings"]
    return settings


def _remove(path: Path) -> None:
    """Delete a file or a whole folder, also one that is gone already."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def peak_memory_mb() -> float:
    """The most memory this process has held, in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1024**2 if sys.platform == "darwin" else 1024), 1)


def shard_name(index: int) -> str:
    return f"part-{index:05d}.parquet"


def shards(folder: Path) -> list[Path]:
    """The data shards of a folder, in order."""
    return sorted(folder.glob("part-*.parquet"))
