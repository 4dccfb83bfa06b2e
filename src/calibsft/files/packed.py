"""Opens files that may be gzipped, and stops unpacking one that grows beyond reason."""

import gzip
import io
from pathlib import Path
from typing import Any, BinaryIO

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


class _Unpacked(io.RawIOBase):
    """The content of a gzipped file, refused where it grows beyond the limits above."""

    def __init__(self, path: Path) -> None:
        self._path, self._file, self._read = path, gzip.GzipFile(path), 0
        self._most = max(MOST_UNPACKED, MOST_GROWTH * path.stat().st_size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._file.readinto(buffer)
        self._read += count
        if self._read > self._most:
            raise InputError(
                f"{self._path}: it unpacks to more than {self._most >> 20:,} MB; unpack it yourself if that is right"
            )
        return count

    def close(self) -> None:
        self._file.close()
        super().close()
