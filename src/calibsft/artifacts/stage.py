"""One stage's folder: begun, resumed, refused or skipped, and finished with its manifest."""

import hashlib
import json
import platform
import resource
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from calibsft import __version__
from calibsft.artifacts.hashing import file_hash
from calibsft.artifacts.locks import LOCK, locked
from calibsft.artifacts.manifests import check_content, read_manifest, telling_damage
from calibsft.artifacts.names import CARD, COST, JOURNAL, JUDGE_CACHE, MANIFEST, SETTINGS, is_hidden
from calibsft.artifacts.records import changed, read_record
from calibsft.artifacts.stopwatch import Stopwatch
from calibsft.artifacts.writing import TEMPORARY, make_folder, telling_no_room, write_json, write_text
from calibsft.errors import InputError
from calibsft.progress import FIRST_PROCESS, clock, info
from calibsft.schema import SCHEMA_VERSION


@dataclass(slots=True)
class StageFolder:
    """One stage's folder.

    Attributes
    ----------
    settings
        Everything that shapes the stage's result, as plain data.
    inputs
        Content hashes of what it reads, by name.
    reads
        Files and folders of other stages that it reads.
    label
        What lines about the stage call it.
    outdated
        What of a finished stage's manifest this program would do differently, as part of a sentence.
    """

    path: Path
    stage: str
    settings: dict[str, Any]
    inputs: dict[str, str] = field(default_factory=dict)
    reads: tuple[Path, ...] = ()
    outdated: Callable[[dict[str, Any]], str | None] = lambda manifest: None
    label: str = ""
    _stopwatch: Stopwatch = field(init=False, repr=False)  # since `begin`
    _resumed: bool = False

    @property
    def complete(self) -> bool:
        return (self.path / MANIFEST).is_file()

    def begin(self) -> None:
        """Take up the folder: new, or as an earlier run with the same settings left it."""
        self.check_unchanged()
        make_folder(self.path)
        for leftover in list(self.path.rglob(f"*{TEMPORARY}")):
            _remove(leftover)
        self._resumed = self._has_work()
        write_text(self.path / SETTINGS, yaml.safe_dump(self._record(), sort_keys=False, allow_unicode=True))
        self._stopwatch = Stopwatch(self.path / COST, write_text, peak_memory_mb)

    def _record(self) -> dict[str, Any]:
        return {
            "schema_version": SCHEMA_VERSION,
            "stage": self.stage,
            "settings": self.settings,
            "inputs": self.inputs,
        }

    def check_unchanged(self, settings_only: bool = False) -> None:
        """Refuse a folder made under other settings or from other inputs, naming the first difference."""
        self._check_own()
        difference = self.difference(settings_only)
        if difference:
            raise InputError(
                f"{self.path}: {difference}; choose another folder with --out, or start this stage over with --fresh"
            )

    def _check_own(self) -> None:
        """Refuse a folder that is not one of this stage."""
        if self.path.is_dir() and not (self.path / SETTINGS).is_file() and self._has_work():
            raise InputError(
                f"{self.path}: the folder is not empty and not a stage of calibsft; choose another one with --out"
            )
        old = read_record(self.path)
        if old is not None and old.get("stage") != self.stage:
            raise InputError(
                f"{self.path}: the folder holds stage '{old.get('stage')}', not '{self.stage}';"
                " choose another one with --out"
            )

    def difference(self, settings_only: bool = False) -> str | None:
        """What changed since this folder was begun, or None; a folder without any work has nothing to lose."""
        old = read_record(self.path)
        if old is None or not self._has_work():
            return None
        found = changed(old, self.settings, old["inputs"] if settings_only else self.inputs)
        return found or (self.outdated(self.manifest()) if self.complete else None)

    def _has_work(self) -> bool:
        """Whether there is more than the settings, the cost, what a kill while writing them left, hidden and empty files."""
        return any(
            file.is_file()
            and file.stat().st_size > 0
            and file.name not in {SETTINGS, COST}
            and not (file.name.startswith((SETTINGS, COST)) and file.name.endswith(TEMPORARY))
            and not is_hidden(file)
            for file in self.path.rglob("*")
        )

    def perform(
        self,
        work: Callable[[Path], dict[str, Any]],
        fresh: bool,
        hash_check: bool = True,
        patience: float = 0.0,
        again: bool = False,
    ) -> None:
        """Let `work` fill the folder, unless an earlier run has completed it.

        Parameters
        ----------
        work
            Takes the folder and returns facts for the manifest.
        fresh
            Start over what was made under other settings or from other inputs, instead of refusing it.
        hash_check
            Refuse to read files of other stages that are not as their manifests say.
        patience
            Seconds to wait for another process that works in the folder, before it is refused.
        again
            Start over whatever is there.
        """
        if not FIRST_PROCESS:
            # The first process holds the lock, checks the folder and writes the manifest; the others share the work.
            if not self.complete or (fresh and self.difference()):
                work(self.path)
            return
        self._check_own()
        if not again and not (fresh and self.difference()) and self._was_done():
            return
        with locked(self.path, patience):
            if again or (fresh and self.difference()):
                self.discard()
            if not self._was_done():
                for path in self.reads if hash_check else ():
                    check_content(path)
                self.begin()
                with telling_no_room(self.path), telling_damage(self.reads):
                    with self._stopwatch:
                        facts = work(self.path)
                    self.finish(**facts)
                info(f"{self.label or self.stage}: done in {clock(self.manifest()['wall_seconds'])}")

    def _was_done(self) -> bool:
        """Whether an earlier run has completed the stage under the same settings, which is said; refuses others."""
        self.check_unchanged()
        if self.complete:
            self.manifest()  # refuses a folder that lost or changed a file since
            info(f"{self.label or self.stage}: done before, skipped ({self.path})")
        return self.complete

    def discard(self) -> None:
        """Delete everything in the folder but its lock, provided that it holds this stage."""
        old = read_record(self.path)
        if old is None or old["stage"] != self.stage:
            return  # `check_unchanged` says what is wrong with it
        (self.path / MANIFEST).unlink(
            missing_ok=True
        )  # first: without its files it would describe a damaged stage
        for entry in self.path.iterdir():
            if entry.name != LOCK:
                with suppress(OSError):  # what cannot be removed is refused as changed
                    _remove(entry)

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
                **self._stopwatch.cost,
                "resumed": self._resumed,
                "python": platform.python_version(),
                **facts,
            },
        )

    def _counts(self, file: Path) -> bool:
        """Data counts towards the content; settings, logs of the work, model cards and hidden files do not."""
        return (
            file.is_file()
            and not is_hidden(file)
            and file.name not in {SETTINGS, MANIFEST, COST, JOURNAL, JUDGE_CACHE, CARD}
            and "checkpoints" not in file.relative_to(self.path).parts
        )

    def manifest(self) -> dict[str, Any]:
        return read_manifest(self.path)


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
