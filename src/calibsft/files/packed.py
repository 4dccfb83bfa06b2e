"""Opens files that may be gzipped, and stops unpacking one that grows beyond reason."""

import gzip
import io
import zlib
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from calibsft.errors import InputError

GZIP_MARK = b"\x1f\x8b"
# Packings that polars would unpack by itself, to any size.
OTHER_PACKINGS = (b"\x78\x01", b"\x78\x9c", b"\x78\xda", b"\x28\xb5\x2f\xfd")
# A packed file may grow to so many bytes, or to so many times its size: kilobytes of gzip can hold gigabytes.
MOST_UNPACKED, MOST_GROWTH = 1 << 30, 100


def opened(path: Path) -> BinaryIO:
    """The bytes of a file, unpacked if it is gzipped, whatever its name."""
    with path.open("rb") as file:
        start = file.read(max(map(len, OTHER_PACKINGS)))
    if start.startswith(OTHER_PACKINGS):
        raise InputError(f"{path}: packed in another way than gzip; unpack it, or pack it with gzip")
    if not start.startswith(GZIP_MARK):
        return path.open("rb")
    return io.BufferedReader(_Unpacked(path))


def damage(path: Path) -> str | None:
    """What is wrong with the packing of a file that is gzipped, or called so; None if nothing is."""
    with path.open("rb") as file:
        start = file.read(len(GZIP_MARK))
    if start and start != GZIP_MARK:
        return (
            "its name ends in .gz, but it is not gzipped; rename or pack it" if path.suffix == ".gz" else None
        )
    try:
        with opened(path) as unpacked:
            while unpacked.read(io.DEFAULT_BUFFER_SIZE):
                pass
    except (OSError, EOFError, zlib.error) as error:
        return f"the gzip file is damaged ({error}); copy it again"
    return None


def most_unpacked(path: Path) -> int:
    """The bytes that a packed file may grow to."""
    return max(MOST_UNPACKED, MOST_GROWTH * path.stat().st_size)


def refuse_growth(path: Path) -> NoReturn:
    """Refuse a packed file that grows beyond that."""
    raise InputError(
        f"{path}: it unpacks to more than {most_unpacked(path) >> 20:,} MB; unpack it yourself if that is right"
    )


class _Unpacked(io.RawIOBase):
    """The content of a gzipped file, refused where it grows beyond the limits above."""

    def __init__(self, path: Path) -> None:
        self._path, self._file, self._read = path, gzip.GzipFile(path), 0
        self._most = most_unpacked(path)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._file.readinto(buffer)
        self._read += count
        if self._read > self._most:
            refuse_growth(self._path)
        return count

    def close(self) -> None:
        self._file.close()
        super().close()
