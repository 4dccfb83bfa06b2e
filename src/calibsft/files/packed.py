"""Files that may be gzipped, unpacked no further than is sensible."""

import gzip
import io
from pathlib import Path
from typing import Any, BinaryIO

from calibsft.errors import InputError

GZIP_MARK = b"\x1f\x8b"
# What polars would unpack by itself, to whatever size.
OTHER_PACKINGS = (b"\x78\x01", b"\x78\x9c", b"\x78\xda", b"\x28\xb5\x2f\xfd")
# Bytes, and times its size, to which a packed file may grow; some kilobytes of gzip can stand for gigabytes.
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
    """What a gzipped file holds, as long as it is not absurdly more than the file itself."""

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
