"""The folder of one stage: begin, resume, refuse or skip it, and finish it with its manifest."""

import hashlib
import json
import platform
import shutil
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
from calibsft.artifacts.names import CARD, COST, JOURNAL, JUDGE_CACHE, MANIFEST, SETTINGS, USAGE, is_hidden
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
    settings : all settings that decide the stage's result, as plain data.
    inputs : content hashes of what the stage reads, by name.
    reads : files and folders of other stages that it reads.
    outdated : from a finished stage's manifest to what this program would do differently, as part of a sentence.
    label : the name of the stage in progress lines.
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
        """Prepare the folder: a new one, or one from an earlier run with the same settings."""
        self.check_unchanged()
        make_folder(self.path)
        for leftover in list(self.path.rglob(f"*{TEMPORARY}")):
            _remove(leftover)
        self._resumed = self._has_work()
        record = {
            "schema_version": SCHEMA_VERSION,
            "stage": self.stage,
            "settings": self.settings,
            "inputs": self.inputs,
        }
        write_text(self.path / SETTINGS, yaml.safe_dump(record, sort_keys=False, allow_unicode=True))
        self._stopwatch = Stopwatch(self.path / COST)

    def check_unchanged(self, settings_only: bool = False) -> None:
        """Refuse a folder with other settings or inputs; the error names the first difference."""
        self._check_own()
        difference = self.difference(settings_only)
        if difference:
            raise InputError(
                f"{self.path}: {difference}; choose another folder with --out, or start this stage over with --fresh"
            )

    def _check_own(self) -> None:
        """Refuse a folder that does not belong to this stage."""
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
        """What changed since this folder was begun, None if nothing did or the folder has no work to lose."""
        old = read_record(self.path)
        if old is None or not self._has_work():
            return None
        found = changed(old, self.settings, old["inputs"] if settings_only else self.inputs)
        return found or (self.outdated(self.manifest()) if self.complete else None)

    def _has_work(self) -> bool:
        """Whether there are files besides settings, cost, their leftovers after a kill, and hidden and empty files."""
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
        """Let `work` fill the folder, unless it is complete.

        Parameters
        ----------
        work : takes the folder and returns facts for the manifest.
        fresh : start over a folder with other settings or inputs, instead of refusing it.
        hash_check : refuse to read files of other stages that differ from their manifests.
        patience : seconds to wait for another process that works in the folder.
        again : start over in any case.
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
        """Whether the stage is complete with the same settings, which is reported; refuses other settings."""
        self.check_unchanged()
        if self.complete:
            self.manifest()  # refuses missing and damaged files
            info(f"{self.label or self.stage}: done before, skipped ({self.path})")
        return self.complete

    def discard(self) -> None:
        """Delete everything in the folder except its lock, if it belongs to this stage."""
        old = read_record(self.path)
        if old is None or old["stage"] != self.stage:
            return  # `check_unchanged` reports what is wrong with it
        # The manifest first: without its files it would describe a damaged stage.
        (self.path / MANIFEST).unlink(missing_ok=True)
        for entry in self.path.iterdir():
            if entry.name != LOCK:
                with suppress(OSError):  # a file that cannot be removed is refused later, as changed
                    _remove(entry)

    def finish(self, **facts: Any) -> None:
        """Write the manifest: hashes of every file, the cost of the work, and `facts`."""
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
        """Whether a file belongs to the stage's content; settings, logs, model cards and hidden files do not."""
        return (
            file.is_file()
            and not is_hidden(file)
            and file.name not in {SETTINGS, MANIFEST, COST, USAGE, JOURNAL, JUDGE_CACHE, CARD}
            and "checkpoints" not in file.relative_to(self.path).parts
        )

    def manifest(self) -> dict[str, Any]:
        return read_manifest(self.path)


def _remove(path: Path) -> None:
    """Delete a file or a whole folder; it may be gone already."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
