"""Users' files that are no tables, or more than one: repeated columns, packed files without end, odd types."""

import gzip
import json
import zlib
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest

from calibsft.benchmarks.reading import read_rows
from calibsft.errors import InputError
from calibsft.files import packed
from calibsft.files.reading import read_table
from calibsft.metrics import score_file
from calibsft.rl.questions import read_questions
from command import Command

READERS = [pytest.param(read_table, id="whole"), pytest.param(score_file, id="in batches")]
CSV = "confidence,correct\n0.5,1\n0.9,0\n"
JSONL = '{"confidence": 0.5, "correct": true}\n{"confidence": 0.9, "correct": false}\n'
Reader = Callable[[Path], object]


def write(path: Path, data: bytes | str) -> Path:
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("header", ["confidence,correct,confidence", "\ufeffcorrect,confidence,correct"])
def test_a_column_that_is_there_twice_in_csv(tmp_path: Path, read: Reader, header: str) -> None:
    path = write(tmp_path / "a.csv", f"{header}\n1,1,1\n")
    with pytest.raises(
        InputError, match=r"a.csv: column '(confidence|correct)' occurs twice; remove or rename"
    ):
        read(path)


@pytest.mark.parametrize("read", READERS)
def test_columns_without_a_name_are_nothing(tmp_path: Path, read: Reader) -> None:
    read(write(tmp_path / "a.csv", "confidence,correct,,\n0.5,1,,\n0.9,0,,\n"))


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("more", ["", ', "gold": "3"', ', "é": 1, "é": 2'])
def test_a_key_that_is_there_twice_in_jsonl(tmp_path: Path, read: Reader, more: str) -> None:
    row = '{"confidence": 0.1, "correct": true, "confidence": 0.9}\n'
    path = write(tmp_path / "a.jsonl", f'{{"confidence": 0.5, "correct": true{more}}}\n' + row)
    with pytest.raises(
        InputError, match=r"a.jsonl, row [12]: the key '(confidence|é)' occurs twice; remove or"
    ):
        read(path)


@pytest.mark.parametrize("read", READERS)
def test_a_name_inside_a_text_is_no_second_key(tmp_path: Path, read: Reader) -> None:
    said = json.dumps({"confidence": 0.5, "correct": True, "response": '"confidence": 0.9, "correct"'})
    nested = json.dumps({"confidence": 0.5, "correct": False, "more": {"confidence": 1}})
    read(write(tmp_path / "a.jsonl", f"{said}\n{nested}\n"))


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("name, text", [("a.csv.gz", CSV), ("a.jsonl.gz", JSONL)])
def test_a_packed_file_is_read_as_far_as_is_sensible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Reader, name: str, text: str
) -> None:
    monkeypatch.setattr(packed, "MOST_UNPACKED", 1 << 20)
    read(write(tmp_path / name, gzip.compress(text.encode())))
    bomb = write(tmp_path / f"bomb-{name}", gzip.compress(text.encode() + b"0" * (1 << 23)))
    with pytest.raises(
        InputError, match=r": it unpacks to more than 1 MB; unpack it yourself if that is right"
    ):
        read(bomb)


def test_a_benchmark_that_unpacks_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "MOST_UNPACKED", 1 << 20)
    path = write(tmp_path / "gsm8k.jsonl.gz", gzip.compress(b" " * (1 << 23)))
    with pytest.raises(InputError, match="it unpacks to more than 1 MB"):
        read_rows(path)


@pytest.mark.parametrize("read", READERS)
def test_other_packings_are_named(tmp_path: Path, read: Reader) -> None:
    path = write(tmp_path / "a.csv", zlib.compress(CSV.encode()))
    with pytest.raises(InputError, match=r"a.csv: packed in another way than gzip; unpack it"):
        read(path)


@pytest.mark.parametrize("column", ["question_id", "correct"])
def test_spans_of_time_are_no_text(tmp_path: Path, column: str) -> None:
    rows = {"question_id": ["a"], "confidence": [0.5], "correct": [True]} | {column: [timedelta(1)]}
    pl.DataFrame(rows).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(InputError, match=f"a.parquet: column '{column}' holds Duration"):
        score_file(tmp_path / "a.parquet")


@pytest.mark.parametrize(
    "rates", [pl.Series([b"0.5"]), pl.Series(["x"], dtype=pl.Categorical), pl.Series([timedelta(1)])]
)
def test_success_rates_of_another_type(tmp_path: Path, rates: pl.Series) -> None:
    rows = {"question_id": ["a"], "question": ["1*1"], "gold": ["1"], "success_rate": rates}
    pl.DataFrame(rows).write_parquet(tmp_path / "q.parquet")
    with pytest.raises(InputError, match=r"q.parquet.*success_rate"):
        read_questions(tmp_path / "q.parquet")


def test_golds_of_another_type_in_a_report(calibsft: Command) -> None:
    rows = {
        "question_id": ["a", "b"],
        "confidence": [0.5, 0.9],
        "correct": [True, False],
        "response": ["x", "y"],
    }
    pl.DataFrame(rows | {"gold": [b"\xff", b"\xfe"]}).write_parquet("a.parquet")
    code, _, said = calibsft("report", "a.parquet")
    assert (code, said) == (
        2,
        "calibsft: a.parquet: column 'gold' holds Binary, not text; write one text per row\n",
    )


@pytest.mark.parametrize("command", ["score", "report", "diagnose"])
def test_responses_that_nobody_has_graded(calibsft: Command, command: str) -> None:
    Path("r.jsonl").write_text('{"question_id": 1, "response": "x", "gold": "1"}\n')
    code, _, said = calibsft(command, "r.jsonl")
    assert code == 2
    assert (
        "grade them first with calibsft verify r.jsonl --out verdicts, and give the folder verdicts" in said
    )


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    "place", ['"gold": "\\ud83d"', '"gold": ["1", "\\udc00"]', '"more": {"\\ud800": "\\udfff"}']
)
def test_half_a_character_in_jsonl_is_a_question_mark(tmp_path: Path, read: Reader, place: str) -> None:
    plain = '{"gold": "1", "confidence": 0.5, "correct": true}\n'
    path = write(tmp_path / "a.jsonl", plain + f'{{{place}, "confidence": 0.9, "correct": false}}\n')
    read(path)
    assert "?" in str(read_table(path).rows()[1])
