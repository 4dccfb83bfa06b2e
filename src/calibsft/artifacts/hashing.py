"""Hashes of what stages read: files, and checkpoint folders."""

import hashlib
import time
from pathlib import Path

from calibsft.artifacts.names import is_hidden
from calibsft.errors import InputError

ENDS = 1 << 20
CLOCK_TICK_NS = 2_000_000_000  # the coarsest in use, FAT's
# What `from_pretrained` reads: weights, configurations, and the vocabularies and templates of tokenizers. Cards,
# licences, leftovers of a kill and files of the desktop change nothing in the model.
CHECKPOINT_ENDINGS = {".safetensors", ".bin", ".json", ".model", ".txt", ".jinja", ".tiktoken"}


_known: dict[tuple[str, int, int, int, int], str] = {}


def file_hash(path: Path) -> str:
    """The SHA-256 of a file's content, computed once per process as long as the file stays untouched."""
    if not path.is_file():
        raise InputError(f"{path}: no such file; check the path")
    found = path.stat()
    key = (str(path.resolve()), found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    if key not in _known:
        with path.open("rb") as handle:
            digest = hashlib.file_digest(handle, "sha256").hexdigest()
        if time.time_ns() - found.st_mtime_ns < CLOCK_TICK_NS:
            return digest  # a change within the same tick of the file system's clock would go unnoticed
        _known[key] = digest
    return _known[key]


def model_inputs(model: str) -> dict[str, str]:
    """What a stage records of the checkpoint that it reads: the name of one on the Hub, the content of a folder.

    Names, sizes and both ends of the files that belong to it: a replaced checkpoint is noticed without reading gigabytes.
    """
    folder = Path(model)
    if not folder.is_dir():
        return {"model": f"{model} on the Hub"}
    digest = hashlib.sha256()
    for file in sorted(filter(_belongs_to_checkpoint, folder.iterdir())):
        digest.update(f"{file.name} {file.stat().st_size}\n".encode())
        with file.open("rb") as handle:
            digest.update(handle.read(ENDS))
            handle.seek(max(0, file.stat().st_size - ENDS))
            digest.update(handle.read(ENDS))
    return {"model": digest.hexdigest()}


def _belongs_to_checkpoint(file: Path) -> bool:
    return file.suffix in CHECKPOINT_ENDINGS and file.is_file() and not is_hidden(file)
