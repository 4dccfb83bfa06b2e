"""Hashes of what stages read: files, and checkpoint folders."""

import hashlib
import time
from pathlib import Path

from calibsft.artifacts.names import is_hidden
from calibsft.errors import InputError

ENDS = 1 << 20
CLOCK_TICK_NS = 2_000_000_000  # the coarsest in use, FAT's
# What `from_pretrained` reads: weights, configurations, and the vocabularies and templates of tokenizers. Cards,
# licences, leftovers of a kill and files of a file manager do not belong to the model.
CHECKPOINT_ENDINGS = {".safetensors", ".bin", ".json", ".model", ".txt", ".jinja", ".tiktoken"}

_known: dict[tuple[str, int, int, int, int], str] = {}


def file_hash(path: Path) -> str:
    """The SHA-256 of a file's content; computed once per process as long as the file does not change."""
    if not path.is_file():
        raise InputError(f"{path}: no such file; check the path")
    found = path.stat()
    key = (str(path.resolve()), found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    if key not in _known:
        with path.open("rb") as handle:
            digest = hashlib.file_digest(handle, "sha256").hexdigest()
        if time.time_ns() - found.st_mtime_ns < CLOCK_TICK_NS:
            return digest  # not kept: a change within the same tick of the file system's clock would not show
        _known[key] = digest
    return _known[key]


def model_inputs(model: str) -> dict[str, str]:
    """What a stage records about a checkpoint that it reads: its name on the Hub and pinned revision, or a hash of the folder.

    The hash is of the names, sizes and both ends of its files, so gigabytes of weights need not be read.
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
