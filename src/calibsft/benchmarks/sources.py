"""Where a benchmark's rows come from: files in a user's folder, or the Hub.

In a folder, names are compared without case, hyphens and underscores: `MATH-500.jsonl`, `math500.jsonl` and
`math_500.parquet` all match. A folder of that name may hold the files of a download from the Hub. Does not read files
(`reading`) and does not know what they mean (each benchmark's own file).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calibsft.benchmarks.reading import READERS, extension, stem
from calibsft.errors import InputError
from calibsft.hub import prepare_hub, record_commit, snapshot

KINDS = "json, jsonl, tsv, csv or parquet, also .gz"


@dataclass(frozen=True, slots=True)
class Place:
    """Where to look for one benchmark: the arguments of `datasets.load_dataset`, and file names without extension.

    Any of `stems` may hold the data, and messages name the first; `parts` hold it together.
    """

    hub: str
    config: str | None
    split: str
    stems: tuple[str, ...]
    parts: tuple[str, ...] = ()
    revision: str | None = None

    @property
    def shown(self) -> str:
        """Hub id with its pinned revision, config and split in one line."""
        name = f"{self.hub}@{self.revision}" if self.revision else self.hub
        return " ".join(part for part in (name, self.config, self.split) if part)


def hub_rows(place: Place) -> list[dict[str, Any]]:
    """The rows of a Hub dataset."""
    prepare_hub()
    from datasets import load_dataset

    try:
        found = load_dataset(place.hub, place.config, split=place.split, revision=place.revision)
        rows = list(found)
    except Exception as error:  # network, Hub, login and cache raise many kinds, all with the same remedy
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"{place.shown}: could not be loaded from the Hub ({reason.rstrip('.')}); connect to it, or give"
            f" a folder with {place.stems[0]}.jsonl by --data-dir"
        ) from error
    if found.cache_files:
        # The folder of a prepared dataset is called like its commit.
        commit = Path(found.cache_files[0]["filename"]).parent.name
        _require_revision(place, commit)
        record_commit(f"datasets/{place.hub}", commit)
    return rows


def _require_revision(place: Place, commit: str) -> None:
    """Refuse another commit than the pinned one: without a connection, the library takes any that it has."""
    if place.revision is None:
        return
    known = snapshot(place.hub, place.revision, "dataset")
    if not commit.startswith(known.name if known else place.revision):
        raise InputError(
            f"{place.shown}: what could be loaded is commit {commit}; connect to the Hub, or pin that commit"
        )


def local_files(place: Place, data_dir: Path) -> list[Path]:
    """The files in `data_dir` that hold the benchmark."""
    if not data_dir.is_dir():
        raise InputError(f"{data_dir}: no such folder; give the one that holds the benchmarks' files")
    entries = sorted(entry for entry in data_dir.iterdir() if entry.is_dir() or extension(entry) in READERS)
    for name in place.stems:
        if found := _named(name, entries):
            return _files_in(found, place) if found.is_dir() else [found]
    parts = {name: _named(name, entries) for name in place.parts}
    files = [path for path in parts.values() if path]
    if not files or len(files) < len(parts):
        _refuse_missing(place, data_dir, [name for name, path in parts.items() if not path])
    return files


def _named(name: str, entries: Sequence[Path]) -> Path | None:
    """The entry called `name`; refuses two of them."""
    found = [e for e in entries if _plain(e.name if e.is_dir() else stem(e)) == _plain(name)]
    if len(found) > 1:
        raise InputError(f"{found[0]} and {found[1].name} both hold {name}; leave one of them in the folder")
    return found[0] if found else None


def _plain(name: str) -> str:
    return name.casefold().replace("-", "").replace("_", "")


def _files_in(folder: Path, place: Place) -> list[Path]:
    """The files of the right config and split in the folder of a downloaded dataset."""
    inside = [path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file()]
    data = [
        p for p in inside if extension(p) in READERS and not any(part.startswith(".") for part in p.parts)
    ]
    if place.config:
        # A config without its own folder has its files at the top or in data/.
        top = [p for p in data if p.parent.parts in ((), ("data",))]
        data = [p for p in data if place.config in p.parts] or top
    names = {_plain(name) for name in (*place.stems, place.config or "")}
    named = [p for p in data if _plain(stem(p)) in names]
    chosen = [p for p in data if p.name.startswith(place.split)] or named
    if not chosen:
        within = f"{place.config}/{place.split}" if place.config else place.split
        raise InputError(
            f"{folder}: no file of split '{within}' there; expected {within}-….parquet or {within}.jsonl"
            " as the Hub has them"
        )
    return [folder / path for path in chosen]


def _refuse_missing(place: Place, data_dir: Path, missing: list[str]) -> None:
    names = " or ".join(place.stems)
    if len(missing) < len(place.parts):
        raise InputError(
            f"{data_dir}: {' and '.join(missing)} ({KINDS}) not found beside the other parts; add them"
        )
    parts = f" (or the parts {', '.join(place.parts)})" if place.parts else ""
    raise InputError(
        f"{data_dir}: no file for this benchmark; put {names}{parts} there ({KINDS}), or a folder"
        f" {place.stems[0]}/ as downloaded from {place.hub}"
    )
