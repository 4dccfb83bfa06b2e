"""The keyed hashes that decide a draw: `rank` defines them, `ranks_of` computes those of a whole table."""

from collections.abc import Hashable, Iterable, Iterator
from hashlib import blake2b

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibsft.schema import QUESTION_KEYS

DIGEST_BYTES = 16
# Rows whose hashes are Python objects at a time.
CHUNK = 1 << 16
# Hashes as two integers, of which the first decides and the second settles ties: an array (N, 2).
Ranks = NDArray[np.uint64]


def rank(seed: int, draw: int, row_id: Hashable) -> bytes:
    """The hash of a row: rows with smaller ones are drawn first."""
    return blake2b(repr((seed, draw, row_id)).encode(), digest_size=DIGEST_BYTES).digest()


def as_ranks(digests: Iterable[bytes]) -> Ranks:
    """Hashes as integers of the same order."""
    joined = np.frombuffer(b"".join(digests), dtype=">u8").reshape(-1, 2)
    return joined.astype(np.uint64)


def ranks_of(keys: pl.DataFrame, seed: int, draw: int) -> Ranks:
    """The ranks of rows with the columns `KEYS`, whose id is the tuple of their keys.

    The responses to a question share the beginning of what is hashed, so it is hashed once for all of them.
    """
    asked = keys.select(QUESTION_KEYS)
    distinct = asked.unique(maintain_order=True)
    numbered = distinct.with_row_index("number")
    numbers = asked.join(numbered, on=QUESTION_KEYS, how="left", maintain_order="left")["number"]
    begun = [_begun(seed, draw, question) for question in distinct.iter_rows()]
    ends = {sample: f"{sample}))".encode() for sample in keys["sample"].unique()}
    parts = [
        as_ranks(_digests(begun, ends, numbers.slice(start, CHUNK), keys["sample"].slice(start, CHUNK)))
        for start in range(0, len(keys), CHUNK)
    ]
    return np.concatenate(parts) if parts else np.zeros((0, 2), dtype=np.uint64)


def _begun(seed: int, draw: int, question: tuple[str, ...]) -> blake2b:
    """The hash of the text that `rank` would hash, as far as all responses to the question share it."""
    return blake2b(repr((seed, draw, question)).removesuffix("))").encode() + b", ", digest_size=DIGEST_BYTES)


def _digests(
    begun: list[blake2b], ends: dict[int, bytes], questions: pl.Series, samples: pl.Series
) -> Iterator[bytes]:
    for question, sample in zip(questions.to_list(), samples.to_list(), strict=True):
        hashed = begun[question].copy()
        hashed.update(ends[sample])
        yield hashed.digest()
