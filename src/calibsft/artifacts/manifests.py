"""Read the manifest of a finished stage, and check the stage's files against it."""

import json
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import polars as pl

from calibsft.artifacts.hashing import file_hash
from calibsft.artifacts.names import MANIFEST, SETTINGS
from calibsft.errors import InputError
from calibsft.schema import SCHEMA_VERSION

# Not the whole folder: hours of sampling may be beside one damaged file.
REDO = "remove {remove}, then run the stage again, which makes only what is missing"
# Hashing runs beside other threads, and a run of gigabytes is hashed before it is read.
HASHED_AT_ONCE = 2
# The keys of every manifest, and their types.
REQUIRED: dict[str, type | tuple[type, ...]] = {
    "stage": str, "content_hash": str, "inputs": dict, "files": dict, "bytes": dict,
    "wall_seconds": (int, float), "resumed": bool,
}  # fmt: skip


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a finished stage; refuses another schema version and missing or damaged files."""
    path = folder / MANIFEST
    if not path.is_file():
        raise InputError(
            f"{folder}: no {MANIFEST}, so this is not a finished stage; run the stage to its end first"
        )
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        found = None
    manifest: dict[str, Any] = found if isinstance(found, dict) else _refuse(path)
    version = manifest.get("schema_version")
    if version != SCHEMA_VERSION:
        raise InputError(
            f"{path}: schema version {version} is not {SCHEMA_VERSION}; use the calibsft that wrote it"
        )
    if not all(isinstance(manifest.get(key), kind) for key, kind in REQUIRED.items()):
        _refuse(path)
    for name, size in manifest["bytes"].items():
        if not (folder / name).is_file():
            raise InputError(f"{folder / name}: missing; {REDO.format(remove=path)}")
        if (folder / name).stat().st_size != size:
            raise _damaged(folder, name)
    return manifest


def check_content(path: Path) -> None:
    """Refuse a file or folder of a finished stage whose content differs from its manifest; other paths are not checked."""
    place = path.resolve()
    around = (path, *path.parents, *place.parents)
    folder = next((folder for folder in around if is_finished_stage(folder)), None)
    if folder is None or not path.exists():
        return
    files = {
        name: recorded
        for name, recorded in read_manifest(folder)["files"].items()
        if (folder.resolve() / name).is_relative_to(place)
    }
    with ThreadPoolExecutor(HASHED_AT_ONCE) as threads:
        found = threads.map(lambda name: file_hash(folder / name), files)
        for name, content in zip(files, found, strict=True):
            if content != files[name]:
                raise _damaged(folder, name)


@contextmanager
def telling_damage(paths: Iterable[Path]) -> Iterator[None]:
    """If reading from finished stages fails inside, and a file of theirs is damaged, name that file."""
    try:
        yield
    except InputError:
        raise
    except (pl.exceptions.PolarsError, ValueError, KeyError):  # raised for garbage in a table or a JSON file
        for path in paths:
            check_content(path)
        raise


def is_finished_stage(folder: Path) -> bool:
    # Other programs write files called manifest.json too.
    return (folder / MANIFEST).is_file() and (folder / SETTINGS).is_file()


def _refuse(path: Path) -> NoReturn:
    raise InputError(f"{path}: not a manifest; {REDO.format(remove=path)}")


def _damaged(folder: Path, name: str) -> InputError:
    redo = REDO.format(remove=f"it and {folder / MANIFEST}")
    return InputError(f"{folder / name}: damaged, not as {MANIFEST} describes it; {redo}")
