"""Responses and their token ids on disk, found again by number.

They are read in the order of the pool and written in the order of the draws, and need not fit into memory in between. The
file has no name, so a kill leaves nothing behind.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

ID_BYTES = 4
# What is read back at a time.
BLOCK_ROWS, BLOCK_BYTES = 1 << 13, 1 << 23


class StoredTexts:
    """Texts with the numbers 0 to `count` - 1, in a file in `folder`; use as a context manager."""

    def __init__(self, folder: Path, count: int) -> None:
        self._file = TemporaryFile(dir=folder)  # noqa: SIM115 - closed by `__exit__`
        self._end = 0
        self._starts = np.zeros(count, dtype=np.int64)
        self._text_bytes = np.zeros(count, dtype=np.int64)
        # Minus one where the ids are unknown.
        self._ids = np.zeros(count, dtype=np.int64)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()

    def add(self, numbers: NDArray[np.int64], texts: Sequence[str], token_ids: pl.Series) -> None:
        """Store texts and their lists of token ids, null where unknown, under these numbers."""
        encoded = [text.encode() for text in texts]
        counts = np.nan_to_num(token_ids.list.len().to_numpy(), nan=-1).astype(np.int64)
        ids = token_ids.list.explode(keep_nulls=False, empty_as_null=False).to_numpy().astype(np.int32)
        lengths = counts.clip(0)
        ends = np.cumsum(lengths)
        starts = ends - lengths
        self._text_bytes[numbers] = sizes = np.fromiter(map(len, encoded), np.int64, len(encoded))
        self._ids[numbers] = counts
        sizes = sizes + ID_BYTES * lengths
        self._starts[numbers] = self._end + np.cumsum(sizes) - sizes
        self._end += int(sizes.sum())
        for text, start, end in zip(encoded, starts, ends, strict=True):
            self._file.write(text)
            self._file.write(ids[start:end].data)

    def blocks(self, numbers: NDArray[np.int64]) -> Iterator[tuple[slice, pl.DataFrame]]:
        """The texts with these numbers in order, some at a time: their place in `numbers`, and `response` and `token_ids`."""
        self._file.flush()
        bytes_before = np.cumsum(self._sizes(numbers))
        start = 0
        while start < len(numbers):
            full = bytes_before[start - 1] + BLOCK_BYTES if start else BLOCK_BYTES
            stop = int(np.searchsorted(bytes_before, full, side="right"))
            stop = min(max(stop, start + 1), start + BLOCK_ROWS)
            yield slice(start, stop), self._read(numbers[start:stop])
            start = stop

    def _sizes(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        sizes: NDArray[np.int64] = self._text_bytes[numbers] + ID_BYTES * self._ids[numbers].clip(0)
        return sizes

    def _read(self, numbers: NDArray[np.int64]) -> pl.DataFrame:
        places = zip(self._starts[numbers].tolist(), self._sizes(numbers).tolist(), strict=True)
        records = [os.pread(self._file.fileno(), size, start) for start, size in places]
        cuts = self._text_bytes[numbers].tolist()
        texts = [record[:cut].decode() for record, cut in zip(records, cuts, strict=True)]
        flat = b"".join(record[cut:] for record, cut in zip(records, cuts, strict=True))
        ids = _lists(np.frombuffer(flat, dtype=np.int32), self._ids[numbers])
        return pl.DataFrame({"response": pl.Series(texts, dtype=pl.String), "token_ids": ids})


def _lists(values: NDArray[np.int32], lengths: NDArray[np.int64]) -> pl.Series:
    """Cut `values` into lists of these lengths; a negative one is null."""
    # Polars has no way to make lists from their ends. Plain buffers, because arrays of pyarrow's own would import pandas.
    from pyarrow import Array, int32, large_list, py_buffer

    known = np.packbits(lengths >= 0, bitorder="little")
    ends = np.concatenate([[0], np.cumsum(lengths.clip(0))])
    flat = Array.from_buffers(int32(), len(values), [None, py_buffer(values)])
    buffers = [py_buffer(known), py_buffer(ends)]
    lists = Array.from_buffers(large_list(int32()), len(lengths), buffers, children=[flat])
    return pl.Series("token_ids", lists, dtype=pl.List(pl.Int32))
