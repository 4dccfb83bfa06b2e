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
from calibsft.hub import prepare_hub

KINDS = "json, jsonl, tsv, csv or parquet, also .gz"


@dataclass(frozen=True, slots=True)
class Place:
    """Where to look for one benchmark.

    Attributes
    ----------
    hub, config, split
        The arguments of `datasets.load_dataset`.
    stems
        File names without extension; any of them may hold the data. Messages name the first.
    parts
        File names without extension that together hold the data.
    """

    hub: str
    config: str | None
    split: str
    stems: tuple[str, ...]
    parts: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """Hub id, config and split in one line."""
        return " ".join(part for part in (self.hub, self.config, self.split) if part)


def hub_rows(place: Place) -> list[dict[str, Any]]:
    """The rows of a Hub dataset."""
    prepare_hub()
    from datasets import load_dataset

    try:
        return list(load_dataset(place.hub, place.config, split=place.split))
    except Exception as error:  # network, Hub, login and cache raise many kinds, all with the same remedy
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"{place.shown}: could not be loaded from the Hub ({reason.rstrip('.')}); connect to it, or give"
            f" a folder with {place.stems[0]}.jsonl by --data-dir"
        ) from error


def local_files(place: Place, data_dir: Path) -> list[Path]:
    """The files in `data_dir` that hold the benchmark."""
    if not data_dir.is_dir():
        raise InputError(f"{data_dir}: no such folder; give the one that holds the benchmarks' files")
    entries = sorted(entry for entry in data_dir.iterdir() if entry.is_dir() or extension(entry) in READERS)
    for name in place.stems:
        found = _named(name, entries)
        if found is not None:
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
        data = [p for p in data if place.config in p.parts] or [
            p for p in data if p.parent.parts in ((), ("data",))
        ]
    names = {_plain(name) for name in (*place.stems, place.config or "")}
    chosen = [p for p in data if p.name.startswith(place.split)] or [
        p for p in data if _plain(stem(p)) in names
    ]
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
