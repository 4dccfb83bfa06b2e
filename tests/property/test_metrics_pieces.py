"""A file read in pieces of any size gives the scores of the table in memory, to the last bit, and the same complaints."""

import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibsft.errors import InputError
from calibsft.files import batches
from calibsft.metrics import counts, score_file, score_table
from calibsft.metrics.files import ScoredFile

KINDS = ["csv", "csv.gz", "jsonl", "jsonl.gz", "parquet"]
CONFIDENCES = st.one_of(
    st.integers(0, 100).map(lambda hundredths: hundredths / 100),
    st.sampled_from([0.1, 0.3, 0.6, 0.7, 1.0, 1e-7]),
    st.floats(0, 1, allow_subnormal=False),
    st.none(),
)
# What breaks a reader that cuts at the wrong place, takes a text for a number, or the other way round.
IDS = st.one_of(
    st.sampled_from(
        ["007", "7", "7.0", "1e3", "[1]", "{", 'a "quoted" id', "two\nlines", "a,b", "é", "true", "null"]
    ),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"), min_size=1, max_size=3),
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "response": st.sampled_from(["", "x" * 50, 'long "text"\n\n' * 3]),
            "confidence": CONFIDENCES,
            "correct": st.booleans(),
            "question_id": IDS,
            "dataset": st.sampled_from(["a", "b\n", "c"]),
        }
    ),
    min_size=1,
    max_size=30,
)
SCHEMA = {
    "response": pl.String, "confidence": pl.Float64, "correct": pl.Boolean, "question_id": pl.String, "dataset": pl.String,
}  # fmt: skip


@contextmanager
def pieces(size: int) -> Iterator[None]:
    """Read so many bytes or rows at a time, and add up at once."""
    with (
        patch.object(batches, "BLOCK_BYTES", size),
        patch.object(batches, "BATCH_ROWS", size),
        patch.object(counts, "PENDING_ROWS", size),
    ):
        yield


@contextmanager
def written(frame: pl.DataFrame, kind: str) -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"rows.{kind}"
        if kind == "parquet":
            frame.write_parquet(path, row_group_size=5)
        else:
            lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in frame.iter_rows(named=True)]
            data = (frame.write_csv() if "csv" in kind else "".join(lines)).encode()
            path.write_bytes(gzip.compress(data) if kind.endswith("gz") else data)
        yield path


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(rows=ROWS, size=st.integers(1, 400))
def test_pieces_of_a_file_give_the_scores_of_the_table(
    kind: str, rows: list[dict[str, object]], size: int
) -> None:
    frame = pl.DataFrame(rows, schema=SCHEMA)
    with written(frame, kind) as path, pieces(size):
        assert score_file(path, "counted") == {**score_table(frame), "dropped": 0}
        readable = frame.drop_nulls("confidence")
        if readable.height:
            found = score_file(path, "drop")
            assert found == {**score_table(readable), "dropped": frame.height - readable.height}


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40, deadline=None)
@given(rows=ROWS, size=st.integers(1, 400))
def test_pieces_of_a_file_are_its_rows_in_their_order(
    kind: str, rows: list[dict[str, object]], size: int
) -> None:
    frame = pl.DataFrame(rows, schema=SCHEMA)
    with written(frame, kind) as path, pieces(size):
        found = ScoredFile(path, "counted").read()
    assert found.select(sorted(found.columns)).equals(frame.select(sorted(found.columns)))


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@settings(max_examples=40, deadline=None)
@given(
    cells=st.lists(st.sampled_from(["0.5", "1", "nan", "", "x", "1.01", ".5"]), min_size=1, max_size=20),
    words=st.lists(st.sampled_from(["true", "0", "maybe", "", "Yes"]), min_size=20, max_size=20),
    names=st.lists(st.sampled_from(["a", "b", ""]), min_size=20, max_size=20),
    size=st.integers(1, 60),
)
def test_a_complaint_is_the_same_however_the_file_is_cut(
    kind: str, cells: list[str], words: list[str], names: list[str], size: int
) -> None:
    frame = pl.DataFrame(
        [(c or None, z or None, name or None) for c, z, name in zip(cells, words, names, strict=False)],
        schema=dict.fromkeys(["confidence", "correct", "question_id"], pl.String),
        orient="row",
    )
    outcomes = []
    with written(frame, kind) as path:
        for length in (1 << 20, size):
            with pieces(length):
                try:
                    outcomes.append(str(score_file(path)))
                except InputError as error:
                    outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]
