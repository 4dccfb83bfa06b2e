"""Hashes of what stages read: files, and checkpoint folders."""

import hashlib
from pathlib import Path

from calibsft.artifacts.names import CARD
from calibsft.errors import InputError

ENDS = 1 << 20


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
