"""Reading a file in pieces: which columns it has, where it may be cut, what unusual files mean and which row is named."""

import gzip
import json
from pathlib import Path

import polars as pl
import pytest

from calibsft.errors import InputError
from calibsft.files import batches as batches_module
from calibsft.files.reading import batches
from calibsft.metrics import score_file

WANTED = ("confidence", "correct", "question_id")
GOOD = '{"confidence": 0.5, "correct": 1, "question_id": "a"}\n'


@pytest.fixture(params=[1, 1 << 20], ids=["in small pieces", "at once"], autouse=True)
def piece(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches_module, "BLOCK_BYTES", request.param)
    monkeypatch.setattr(batches_module, "BATCH_ROWS", request.param)


def write(folder: Path, name: str, data: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def read(path: Path, wanted: tuple[str, ...] = WANTED) -> tuple[list[tuple[object, ...]], set[str]]:
    parts = list(batches(path, wanted))
    return pl.concat(part.rows for part in parts).rows(), {name for part in parts for name in part.present}


def refusal(path: Path, malformed: str = "error") -> str:
    with pytest.raises(InputError) as caught:
        score_file(path, malformed)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_cells_of_json_are_texts_whatever_the_rest_of_the_file_holds(tmp_path: Path) -> None:
    lines = [(0.50, True, 7), ("0.50", 1, 7.5), (1e-7, "no", 7.0), (1, None, 12345678901234567890123)]
    text = "".join(json.dumps(dict(zip(WANTED, line, strict=True))) + "\n\n" for line in lines)
    rows, present = read(write(tmp_path, "a.jsonl", text))
    assert rows == [
        ("0.5", "true", "7"),
        ("0.50", "1", "7.5"),
        ("0.0000001", "no", "7"),
        ("1", None, "12345678901234567890123"),
    ]
    assert present == set(WANTED)


def test_a_slow_line_is_written_as_a_fast_one(tmp_path: Path) -> None:
    values = [0.5, 7.0, 7, 1e-7, 1e22, 123456.75, -0.0, 0.1, True, 5e-324, "é", 2**64, "007", None]
    line = "{" + ", ".join(f'"{i}": {json.dumps(value)}' for i, value in enumerate(values)) + "}\n"
    # NaN is no JSON, but Python writes it: polars refuses the whole piece.
    slow = '{"none": NaN}\n' + line
    wanted = tuple(str(i) for i in range(len(values)))
    fast_rows, _ = read(write(tmp_path, "fast.jsonl", line), wanted)
    slow_rows, _ = read(write(tmp_path, "slow.jsonl", slow), wanted)
    assert slow_rows[1:] == fast_rows


def test_a_column_may_first_appear_late_or_hold_null_alone(tmp_path: Path) -> None:
    late = '{"correct": 1}\n' * 9 + '{"correct": 1, "confidence": 0.5}\n'
    assert read(write(tmp_path, "late.jsonl", late))[1] == {"confidence", "correct"}
    empty = '{"correct": 1, "confidence": null}\n'
    assert read(write(tmp_path, "null.jsonl", empty))[1] == {"confidence", "correct"}
    inner = '{"correct": 1, "made": {"confidence": 0.5}, "by": "question_id"}\n'
    assert read(write(tmp_path, "inner.jsonl", inner))[1] == {"correct"}


def test_a_late_column_leaves_earlier_rows_empty(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", '{"confidence": 0.5, "correct": 1}\n' * 3 + GOOD)
    assert refusal(path) == (
        f"{path}, row 1: 'question_id' is empty (3 such rows); fill it or remove the row"
    )


@pytest.mark.parametrize("value", ["[1]", '{"a": 1}'])
def test_a_list_or_a_record_is_no_id_but_a_text_that_looks_like_one_is(tmp_path: Path, value: str) -> None:
    line = '{"confidence": 0.5, "correct": 1, "question_id": VALUE}\n'
    path = write(tmp_path, "a.jsonl", GOOD + line.replace("VALUE", value))
    assert f"{path}, row 2: 'question_id' holds" in refusal(path)
    path = write(tmp_path, "b.jsonl", GOOD + line.replace("VALUE", json.dumps(value)))
    assert score_file(path)["overall"]["questions"] == 2


def test_what_json_does_not_allow_is_a_malformed_confidence(tmp_path: Path) -> None:
    bad = '{"confidence": VALUE, "correct": 1, "question_id": "b"}\n'
    path = write(tmp_path, "a.jsonl", GOOD * 3 + bad.replace("VALUE", "NaN") + bad.replace("VALUE", "1e400"))
    assert f"{path}, row 4: confidence 'NaN' is not a number in [0, 1]" in refusal(path)
    assert "(2 found)" in refusal(path)
    assert score_file(path, "drop")["dropped"] == 2


@pytest.mark.parametrize("line", ['{"confidence": 0.5', "[1]", "nonsense", '{"a": "\udcff"}'])
@pytest.mark.parametrize("packed", [False, True])
def test_a_line_that_is_no_object_is_named(tmp_path: Path, line: str, packed: bool) -> None:
    data = (GOOD * 2 + "\n" + line + "\n" + GOOD).encode("utf-8", "surrogateescape")
    path = write(tmp_path, "a.jsonl", gzip.compress(data) if packed else data)
    assert refusal(path) == f"{path}, row 3: not a JSON object; write one complete object per line"


def test_a_missing_column_of_json_is_named_with_the_nearest(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", '{"confidance": 0.5, "correct": 1}\n')
    assert refusal(path) == (
        f"{path}: column 'confidence' is missing, but 'confidance' is there;"
        " add --columns confidence=confidance"
    )


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_a_byte_order_mark_is_no_text(tmp_path: Path, name: str) -> None:
    text = GOOD if "json" in name else "confidence,correct\n0.5,1\n"
    path = write(tmp_path, name, b"\xef\xbb\xbf" + text.encode())
    assert score_file(path)["overall"]["n"] == 1


def test_a_csv_may_have_blank_lines_first_and_line_ends_in_cells(tmp_path: Path) -> None:
    text = '\n\r\n"question\nid",correct,confidence\r\n"say ""hi""\n\nthere",1,0.5\r\nb,0,"0.25"'
    rows, _ = read(write(tmp_path, "a.csv", text), ("question\nid", "confidence"))
    assert rows == [('say "hi"\n\nthere', "0.5"), ("b", "0.25")]


@pytest.mark.parametrize(
    "name, data, complaint",
    [
        ("a.csv", b"confidence,correct\n", "the file has no rows"),
        ("a.jsonl", b"\n\n", "the file has no rows"),
        ("a.csv", b"confidence;correct\n0.5;1\n", "the columns are separated by ';'"),
        ("a.csv", b"confidence,correct\n0.5,1,2\n", "cannot be read as .csv"),
        ("a.csv", "confidence,correct\n0.5,1\n".encode("utf-16"), "not a text file in UTF-8"),
        ("a.csv.gz", b"\x1f\x8b\x08\x00garbage", "cannot be read as .gz"),
        ("a.jsonl.gz", gzip.compress(GOOD.encode() * 99, mtime=0)[:-9], "cannot be read as .gz"),
        ("a.parquet", b"PAR1PAR1", "cannot be read as .parquet"),
    ],
)
def test_a_file_that_cannot_be_scored_is_told_in_one_sentence(
    tmp_path: Path, name: str, data: bytes, complaint: str
) -> None:
    path = write(tmp_path, name, data)
    assert f"{path}: {complaint}" in refusal(path)


def test_a_packed_file_is_unpacked_whatever_its_name(tmp_path: Path) -> None:
    assert score_file(write(tmp_path, "a.jsonl", gzip.compress(GOOD.encode())))["overall"]["n"] == 1


@pytest.mark.parametrize("dtype", [pl.Float32, pl.Float64, pl.Decimal(4, 2), pl.String])
def test_parquet_columns_keep_their_types(tmp_path: Path, dtype: pl.DataType) -> None:
    rows = pl.DataFrame({"confidence": ["0.7", None, "0.30"], "correct": [1, 0, 1]})
    path = tmp_path / "a.parquet"
    rows.with_columns(pl.col("confidence").cast(dtype)).write_parquet(path)
    plain = write(tmp_path, "a.csv", rows.write_csv())
    assert score_file(path, "counted") == score_file(plain, "counted")


def test_verdicts_without_a_readable_gold_are_left_out_and_rows_keep_their_numbers(tmp_path: Path) -> None:
    text = "confidence,correct,grade\n0.5,,unscored\n0.5,1,correct\nx,0,wrong\n"
    path = write(tmp_path, "a.csv", text)
    assert f"{path}, row 3: confidence 'x'" in refusal(path)
    found = score_file(path, "drop")
    assert (found["overall"]["n"], found["dropped"]) == (1, 2)
    assert "row 1: 'correct' is empty" in refusal(write(tmp_path, "b.csv", text.replace("grade", "note")))


def test_only_what_is_wanted_is_read(tmp_path: Path) -> None:
    frame = pl.DataFrame({"response": ["long"] * 3, "confidence": [0.5] * 3, "correct": [True] * 3})
    frame.write_parquet(tmp_path / "a.parquet")
    for batch in batches(tmp_path / "a.parquet", WANTED):
        assert batch.rows.columns == list(WANTED) and batch.present == {"confidence", "correct"}
