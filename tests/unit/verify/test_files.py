"""Grading a user's own file of responses: what is read, what is refused, and what comes out."""

import json
from pathlib import Path

import polars as pl
import pytest

from calibsft.responses.formats import get_format
from calibsft.verify import verdicts
from calibsft.verify.files import read_responses
from command import Command

ROWS: list[dict[str, object]] = [
    {"question_id": "a", "answer": "4", "gold": "4", "kind": "math"},
    {"question_id": "a", "answer": "five", "gold": "4", "kind": "math"},
    {"question_id": "b", "answer": "the Beatles", "gold": ["Beatles", "The Fab Four"], "kind": "text"},
    {"question_id": "c", "answer": "2, 1", "gold": ["1", "2"], "kind": "set"},
    {"question_id": "d", "answer": "4.24", "gold": "4.2", "kind": "math", "tolerance": "0.1"},
]
CORRECT = [True, False, True, True, True]


def response(answer: object) -> str:
    return f"<think>So.</think> <answer>{answer}</answer> <confidence>0.70</confidence>"


def rows() -> list[dict[str, object]]:
    plain = [{k: v for k, v in row.items() if k != "answer"} for row in ROWS]
    return [{**row, "response": response(full["answer"])} for row, full in zip(plain, ROWS, strict=True)]


def write(path: Path, records: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def test_a_file_of_responses_is_graded_row_by_row(calibsft: Command, tmp_path: Path) -> None:
    write(tmp_path / "r.jsonl", rows())
    code, out, err = calibsft("verify", "r.jsonl", "--out", "v", "--json")
    assert code == 0, err
    found = pl.read_parquet("v/part-*.parquet")
    assert found["correct"].to_list() == CORRECT
    assert found["sample"].to_list() == [0, 1, 0, 0, 0]
    assert found["confidence"].to_list() == [0.7] * 5
    counts = json.loads(out)
    assert counts["overall"]["n"] == 5 and counts["overall"]["grades"]["correct"] == 4
    manifest = json.loads(Path("v/manifest.json").read_text())
    assert manifest["verifier"] == counts["graders"] == sorted(found["grader"].unique())
    assert all(name.rpartition("-")[2].isdigit() for name in counts["graders"])


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_csv_and_parquet_say_the_same_as_jsonl(calibsft: Command, tmp_path: Path, suffix: str) -> None:
    records = [
        {**row, "gold": json.dumps(row["gold"]) if isinstance(row["gold"], list) else row["gold"]}
        for row in rows()
    ]
    frame = pl.DataFrame([{"tolerance": "", **record} for record in records])
    path = tmp_path / f"r.{suffix}"
    frame.write_csv(path) if suffix == "csv" else frame.write_parquet(path)
    code, _, err = calibsft("verify", path, "--out", "v")
    assert code == 0, err
    assert pl.read_parquet("v/part-*.parquet")["correct"].to_list() == CORRECT


def test_the_table_says_how_it_came_out(calibsft: Command, tmp_path: Path) -> None:
    write(tmp_path / "r.jsonl", rows())
    code, out, _ = calibsft("verify", "r.jsonl", "--out", "v")
    assert code == 0
    assert "correct" in out and "80.0%" in out and "graded by math-" in out


def test_it_says_how_many_are_well_formed_and_what_is_wrong_with_the_others(
    calibsft: Command, tmp_path: Path
) -> None:
    records = rows()
    for number, text in ((0, "4"), (1, "4"), (2, "<think>So.</think> <answer>x</answer>")):
        records[number]["response"] = text
    write(tmp_path / "r.jsonl", records)
    code, out, _ = calibsft("verify", "r.jsonl", "--out", "v")
    assert code == 0
    assert "\nwell formed: 40.0%; malformed: 2 missing_think_end, 1 missing_confidence\n" in out
    counts = json.loads(calibsft("verify", "r.jsonl", "--out", "v", "--json")[1])["overall"]
    assert counts["well_formed"] == 0.4
    assert counts["reasons"] == {"missing_think_end": 2, "missing_confidence": 1}
    write(tmp_path / "r.jsonl", rows())
    assert "\nwell formed: 100.0%\n" in calibsft("verify", "r.jsonl", "--out", "w")[1]


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_a_column_of_confidences_counts_instead_of_what_responses_state(
    calibsft: Command, tmp_path: Path, suffix: str
) -> None:
    text, whole = "4", response("4")
    given = [(text, "0.3"), (whole, "1e-1"), (text, "high"), (whole, None), (text, None), (text, "1.5")]
    frame = pl.DataFrame(
        [
            {"question_id": "a", "gold": "4", "answer": "4", "response": said, "confidence": cell}
            for said, cell in given
        ]
    )
    path = tmp_path / f"r.{suffix}"
    frame.write_csv(path) if suffix == "csv" else frame.write_ndjson(path)
    code, out, err = calibsft("verify", path, "--out", "v")
    assert code == 0, err
    found = pl.read_parquet("v/part-*.parquet")
    assert found["confidence"].to_list() == [0.3, 0.1, None, 0.7, None, None]
    assert found["reason"].to_list() == [
        "ok", "ok", "bad_confidence", "ok", "missing_think_end", "bad_confidence",
    ]  # fmt: skip
    assert found["correct"].all() and "well formed: 50.0%" in out
    code, _, err = calibsft("certify", "v", "--risk", 0.5)
    assert code == 0 and "3 of 6 rows have no readable confidence" in err


def test_an_unfinished_response_is_truncated_whatever_its_confidence(tmp_path: Path) -> None:
    record = {"question_id": "a", "gold": "4", "response": "4", "confidence": 0.5, "finished": False}
    write(tmp_path / "r.jsonl", [record])
    verdicts.verify_responses(tmp_path / "r.jsonl", get_format("probability"), tmp_path / "v", "verify")
    (found,) = pl.read_parquet(tmp_path / "v/part-*.parquet").iter_rows(named=True)
    assert (found["reason"], found["well_formed"], found["confidence"]) == ("truncated", False, 0.5)


def test_verdicts_can_be_scored(calibsft: Command, tmp_path: Path) -> None:
    write(
        tmp_path / "r.jsonl",
        [*rows(), {"question_id": "e", "response": response("5"), "gold": r"\frac{", "kind": "math"}],
    )
    assert calibsft("verify", "r.jsonl", "--out", "v")[0] == 0
    code, out, err = calibsft("score", "v", "--json")
    assert code == 0, err
    scores = json.loads(out)
    assert (scores["overall"]["n"], scores["overall"]["pass@1"], scores["dropped"]) == (5, 0.8, 1)
    assert scores["datasets"] == {}


def test_a_second_run_skips_and_a_changed_file_is_refused(calibsft: Command, tmp_path: Path) -> None:
    path = write(tmp_path / "r.jsonl", rows())
    assert calibsft("verify", path, "--out", "v")[0] == 0
    code, _, err = calibsft("verify", path, "--out", "v")
    assert code == 0 and "done before, skipped" in err
    write(path, rows()[:3])
    code, _, err = calibsft("verify", path, "--out", "v")
    assert code == 2 and "its input 'responses' has changed" in err


def test_an_interrupted_file_goes_on_with_its_next_part(
    calibsft: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdicts, "PART_ROWS", 2)
    path = write(tmp_path / "r.jsonl", rows())
    assert calibsft("verify", path, "--out", "v")[0] == 0
    whole = pl.read_parquet("v/part-*.parquet")
    Path("v/manifest.json").unlink()
    Path("v/part-00001.parquet").unlink()
    kept = Path("v/part-00000.parquet").stat().st_mtime_ns
    code, _, err = calibsft("verify", path, "--out", "v")
    assert code == 0 and "3 of 5 responses were done before" in err
    assert Path("v/part-00000.parquet").stat().st_mtime_ns == kept
    assert pl.read_parquet("v/part-*.parquet").equals(whole)


def test_a_part_by_another_version_of_a_grader_is_graded_again(
    calibsft: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdicts, "PART_ROWS", 2)
    path = write(tmp_path / "r.jsonl", rows())
    assert calibsft("verify", path, "--out", "v")[0] == 0
    whole = pl.read_parquet("v/part-*.parquet")
    Path("v/manifest.json").unlink()
    old = pl.read_parquet("v/part-00000.parquet").with_columns(grader=pl.lit("math-0"), correct=False)
    old.write_parquet("v/part-00000.parquet")
    code, _, err = calibsft("verify", path, "--out", "v")
    assert code == 0 and "3 of 5 responses were done before" in err
    assert pl.read_parquet("v/part-*.parquet").equals(whole)


def test_an_extracted_answer_is_graded_where_the_response_holds_none(tmp_path: Path) -> None:
    records = [
        {"question_id": "a", "response": "It is 4.", "answer": "4", "gold": "4"},
        {"question_id": "b", "response": response("5"), "answer": "4", "gold": "4"},
    ]
    frame = read_responses(write(tmp_path / "r.jsonl", records))
    from calibsft.responses.formats import FORMATS
    from calibsft.verify.verifier import Verifier

    with Verifier() as verifier:
        found = verdicts.verify(frame, FORMATS["probability"], verifier)
    assert [v.correct for v in found] == [True, False]
    assert [v.well_formed for v in found] == [False, True]


def test_no_answer_does_not_hide_a_gold_that_cannot_be_read(calibsft: Command, tmp_path: Path) -> None:
    records = [{"question_id": "a", "response": text, "gold": r"\frac{"} for text in (response("5"), "none")]
    write(tmp_path / "r.jsonl", records)
    code, out, _ = calibsft("verify", "r.jsonl", "--out", "v")
    assert code == 0 and "2 are unscored" in out
    assert pl.read_parquet("v/part-*.parquet")["correct"].to_list() == [None, None]


@pytest.mark.parametrize(
    "change, message",
    [
        ({"gold": ""}, r"r.jsonl, row 2: 'gold' is empty"),
        ({"gold": None}, r"r.jsonl, row 2: 'gold' is empty"),
        ({"gold": []}, r"r.jsonl, row 2: 'gold' is empty"),
        ({"kind": "mth"}, r"r.jsonl, row 2: unknown grader 'mth' in column 'kind'; write one of"),
        ({"kind": None}, r"r.jsonl, row 2: 'kind' is empty"),
        ({"question_id": None}, r"r.jsonl, row 2: 'question_id' is empty"),
        ({"gold": {"a": 1}}, r"r.jsonl, row 2: 'gold' holds"),
        ({"gold": [["a"]]}, r"r.jsonl, row 2: 'gold' holds"),
        ({"gold": True}, r"r.jsonl, row 2: 'gold' holds"),
        ({"tolerance": "ten"}, r"r.jsonl, row 2: tolerance 'ten' is no positive decimal"),
        ({"tolerance": -1}, r"r.jsonl, row 2: tolerance '-1' is no positive decimal"),
        ({"sample": 99999999999}, r"sample"),
    ],
)
def test_bad_rows_are_named(
    calibsft: Command, tmp_path: Path, change: dict[str, object], message: str
) -> None:
    records = rows()[2:4]
    records[1] |= change
    write(tmp_path / "r.jsonl", records)
    code, _, err = calibsft("verify", "r.jsonl", "--out", "v")
    assert code == 2 and message in err and err.count("\n") == 1, err
    assert not Path("v").exists() or not list(Path("v").glob("part-*"))


def graded(calibsft: Command, path: Path) -> list[bool]:
    code, _, err = calibsft("verify", path, "--out", "v")
    assert code == 0, err
    return pl.read_parquet("v/part-*.parquet")["correct"].to_list()


def test_numbers_are_taken_as_they_are_written(calibsft: Command, tmp_path: Path) -> None:
    golds = [(3, "3"), (0.5, "0.5"), ([5, 6.5], "5"), ("007", "007"), (1000, "1000")]
    records = [
        {"question_id": i, "response": response(answer), "gold": gold, "kind": "text"}
        for i, (gold, answer) in enumerate(golds)
    ]
    assert graded(calibsft, write(tmp_path / "r.jsonl", records)) == [True] * 5


def test_answers_of_a_csv_file_are_texts(calibsft: Command, tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text(
        "question_id,response,gold,answer,kind\n1,none,007,007,exact\n2,none,3,3,text\n3,none,0.5,0.5,text\n"
    )
    assert graded(calibsft, tmp_path / "r.csv") == [True] * 3


def test_a_list_in_a_cell_is_a_list_save_an_interval(calibsft: Command, tmp_path: Path) -> None:
    records = [
        {"question_id": 1, "response": response("1991, 1990"), "gold": "[1990, 1991]", "kind": "set"},
        {"question_id": 2, "response": response("a, 2"), "gold": '["a", 2]', "kind": "set"},
        {"question_id": 3, "response": response(r"0 \le x \le 1"), "gold": "[0, 1]", "kind": "math"},
    ]
    pl.DataFrame(records).write_csv(tmp_path / "r.csv")
    assert graded(calibsft, tmp_path / "r.csv") == [True] * 3


def test_a_byte_order_mark_is_no_content(calibsft: Command, tmp_path: Path) -> None:
    path = write(tmp_path / "r.jsonl", rows())
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert graded(calibsft, path) == CORRECT


@pytest.mark.parametrize(
    "text, message",
    [
        ("question_id;response;gold\n1;a;b\n", "the columns are separated by ';'"),
        ("question_id,response,gold\n1,a,b\n".encode("utf-16"), "not a text file in UTF-8"),
    ],
)
def test_a_csv_file_of_another_kind_is_named(
    calibsft: Command, tmp_path: Path, text: str | bytes, message: str
) -> None:
    (tmp_path / "r.csv").write_bytes(text.encode() if isinstance(text, str) else text)
    code, _, err = calibsft("verify", "r.csv", "--out", "v")
    assert code == 2 and message in err and err.count("\n") == 1, err


@pytest.mark.parametrize("column", ["question_id", "response", "gold"])
def test_a_missing_column_is_named(calibsft: Command, tmp_path: Path, column: str) -> None:
    records = [{k: v for k, v in row.items() if k != column} for row in rows()[:2]]
    write(tmp_path / "r.jsonl", records)
    code, _, err = calibsft("verify", "r.jsonl", "--out", "v")
    assert code == 2 and f"column '{column}' is missing" in err


def test_two_rows_for_one_sample_are_refused(calibsft: Command, tmp_path: Path) -> None:
    write(tmp_path / "r.jsonl", [{**row, "sample": 0} for row in rows()])
    code, _, err = calibsft("verify", "r.jsonl", "--out", "v")
    assert code == 2 and "more than one row with sample 0" in err
