"""Reading a user's file: what is accepted, and which row a complaint names."""

import gzip
import json
from pathlib import Path

import polars as pl
import pytest

from calibsft.benchmarks.files import load_questions
from calibsft.errors import InputError
from calibsft.files.cells import boolean_column, require_filled, row_of, text_column
from calibsft.files.columns import require_columns
from calibsft.files.reading import read_table

ROWS = [{"question_id": "007", "correct": True}, {"question_id": "7", "correct": False}]


def written(path: Path) -> Path:
    frame = pl.DataFrame(ROWS)
    plain = path.name.removesuffix(".gz")
    if plain.endswith(".csv"):
        data = frame.write_csv().encode()
    elif plain.endswith("l"):
        data = frame.write_ndjson().encode()
    else:
        frame.write_parquet(path)
        return path
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet", "a.csv.gz", "a.jsonl.gz"])
def test_every_kind_of_file_gives_the_same_table(tmp_path: Path, name: str) -> None:
    assert read_table(written(tmp_path / name), ("question_id",)).equals(pl.DataFrame(ROWS))


def test_ndjson_is_jsonl(tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    assert read_table(path).equals(pl.DataFrame(ROWS))


def test_number_ids_become_text(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"question_id": 7, "dataset": 1}\n{"question_id": 8, "dataset": 2}\n')
    assert read_table(path).rows() == [("7", "1"), ("8", "2")]


def test_ids_of_mixed_kinds_become_text(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"question_id": 7}\n{"question_id": "x"}\n')
    assert read_table(path)["question_id"].to_list() == ["7", "x"]


def test_numbers_in_text_columns_of_a_csv_keep_their_spelling(tmp_path: Path) -> None:
    path = tmp_path / "questions.csv"
    path.write_text(
        "question_id,question,gold,kind\n1,10,3,exact\n2,0.50,0.50,exact\n3,7,12345678901234567890123,exact\n"
    )
    questions = load_questions(path)
    assert [q.gold for q in questions] == ["3", "0.50", "12345678901234567890123"]
    assert [q.text for q in questions] == ["10", "0.50", "7"]


def refusal(path: Path, columns: tuple[str, ...] = ()) -> str:
    with pytest.raises(InputError) as caught:
        read_table(path, columns)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "none.csv"
    assert refusal(path) == f"{path}: no such file; give a .csv, .jsonl or .parquet file"


def test_a_folder_that_no_stage_wrote_is_refused(tmp_path: Path) -> None:
    assert "a folder without part-*.parquet" in refusal(tmp_path)


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_an_empty_file_is_called_empty(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"")
    assert refusal(path) == f"{path}: the file is empty; write at least one response into it"


def test_a_file_of_a_header_alone_has_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("question_id,correct\n")
    assert "the file has no rows" in refusal(path)


def test_an_unknown_extension_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.xlsx"
    path.write_bytes(b"x")
    assert refusal(path) == f"{path}: unknown file type '.xlsx'; use .csv, .jsonl or .parquet"


def test_a_missing_column_is_named_with_the_nearest_one(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv")
    message = refusal(path, ("question_id", "correkt"))
    assert message == (
        f"{path}: column 'correkt' is missing (there is 'correct': rename it);"
        " the file needs question_id, correkt and has question_id, correct"
    )


def test_require_columns_looks_at_names_only() -> None:
    frame = pl.DataFrame({"a": [None, 1]})
    require_columns(Path("x.csv"), frame.columns, ("a",))
    with pytest.raises(InputError, match=r"x\.csv: column 'b' is missing; the file needs a, b and has a"):
        require_columns(Path("x.csv"), frame.columns, ("a", "b"))


def test_an_empty_cell_is_named_by_its_row(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("question_id,correct\n1,true\n2,\n3,\n")
    assert f"{path}, row 2: 'correct' is empty (2 such rows)" in refusal(path, ("correct",))


@pytest.mark.parametrize(
    "content, row",
    [
        ('{"a": 1}\n{"a": 2\n{"a": 3}\n', 2),
        ('{"a": 1}\n\n{"a": 1}\n[1]\n', 3),
        ("nonsense\n", 1),
        ('{"a": 1}\n{"a": "\udcff"}\n', 2),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_a_broken_line_is_named_by_its_row(tmp_path: Path, content: str, row: int, packed: bool) -> None:
    data = content.encode("utf-8", "surrogateescape")
    path = tmp_path / ("a.jsonl.gz" if packed else "a.jsonl")
    path.write_bytes(gzip.compress(data) if packed else data)
    assert refusal(path) == f"{path}, row {row}: not a JSON object; write one complete object per line"


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet", "a.jsonl.gz", "a.csv.gz", "a.parquet.gz"])
@pytest.mark.parametrize("junk", [bytes(range(256)) * 8, b"PAR1" * 9, b"\x1f\x8b\x08\x00garbage", b"\x00"])
def test_junk_is_refused_or_lacks_the_columns(tmp_path: Path, name: str, junk: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(junk)
    assert str(path) in refusal(path, ("question_id",))


def test_lists_and_records_are_not_ids(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"question_id": [1]}\n')
    assert (
        refusal(path) == f"{path}: column 'question_id' holds List(Int64), not text; write one text per row"
    )


def test_text_column_writes_numbers_out() -> None:
    assert text_column(Path("x"), pl.DataFrame({"a": [1, None]}), "a").to_list() == ["1", None]


def test_row_of_counts_from_one_and_takes_unknown_as_no() -> None:
    assert row_of(pl.Series([None, False, True, True])) == 3


def test_require_filled_accepts_empty_text() -> None:
    require_filled(Path("x"), pl.DataFrame({"a": ["", "b"]}), "a")


@pytest.mark.parametrize(
    "values, expected",
    [
        ([True, False], [True, False]),
        ([1, 0], [True, False]),
        ([1.0, 0.0], [True, False]),
        (["True", "no", "CORRECT ", "0"], [True, False, True, False]),
    ],
)
def test_usual_spellings_of_truth(values: list[object], expected: list[bool]) -> None:
    assert boolean_column(Path("x"), pl.DataFrame({"z": values}), "z").to_list() == expected


@pytest.mark.parametrize(
    "values, shown",
    [
        (["yes", "maybe"], "'maybe'"),
        ([1, 2], "'2'"),
        ([0.0, 0.5], "'0.5'"),
        (["no", "x" * 99], f"'{'x' * 60}'"),
    ],
)
def test_anything_else_is_refused_with_its_row(values: list[object], shown: str) -> None:
    with pytest.raises(InputError) as caught:
        boolean_column(Path("f.csv"), pl.DataFrame({"z": values}), "z")
    assert str(caught.value) == (
        f"f.csv, row 2: z {shown} is neither true nor false (1 such rows); write true or false"
    )


def test_control_characters_of_a_cell_are_written_out() -> None:
    with pytest.raises(InputError) as caught:
        boolean_column(Path("f.csv"), pl.DataFrame({"z": ["\x1b[2J\n"]}), "z")
    assert "'\\x1b[2J\\n'" in str(caught.value)
    assert str(caught.value).isprintable()
