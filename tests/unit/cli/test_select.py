"""`calibsft select`: what it keeps, what it promises, and what it refuses."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from calibsft.decisions import select
from command import Command

SELECT = ("select", "labelled.csv", "batch.csv", "--risk", "0.2")


@pytest.fixture
def files(calibsft: Command, tmp_path: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Labelled answers of a calibrated model, and a batch with texts."""
    random = np.random.default_rng(0)
    stated = random.integers(0, 101, 400) / 100
    labelled = pl.DataFrame(
        {"question_id": [f"q{i}" for i in range(400)], "confidence": stated, "correct": random.random(400) < stated}
    )  # fmt: skip
    batch = pl.DataFrame(
        {"question_id": [f"b{i}" for i in range(100)], "confidence": random.integers(0, 101, 100) / 100,
         "answer": [f"=HYPERLINK({i})" for i in range(100)]}
    )  # fmt: skip
    labelled.write_csv(tmp_path / "labelled.csv")
    batch.write_csv(tmp_path / "batch.csv")
    return labelled, batch


@pytest.mark.parametrize("name", ["kept.csv", "kept.jsonl", "kept.parquet"])
def test_the_kept_rows_are_written_as_they_are(
    calibsft: Command, files: tuple[pl.DataFrame, pl.DataFrame], name: str
) -> None:
    labelled, batch = files
    code, out, err = calibsft(*SELECT, "--out", name, "--json")
    assert (code, err) == (0, "")
    columns = labelled["confidence"], labelled["correct"], labelled["question_id"]
    expected = batch.filter(select(*columns, batch["confidence"], 0.2).keep)
    readers = {"csv": pl.read_csv, "jsonl": pl.read_ndjson, "parquet": pl.read_parquet}
    assert readers[name.partition(".")[2]](name).equals(expected) and 0 < expected.height < 100
    assert json.loads(out) == {
        "risk": 0.2, "guarantee": "expectation", "labelled": 400, "wrong": int((~labelled["correct"]).sum()),
        "answers": 100, "kept": expected.height, "lowest": expected["confidence"].min(), "left_out": 0, "out": name,
    }  # fmt: skip


def test_the_guarantee_is_named_in_words(calibsft: Command, files: object) -> None:
    _, out, _ = calibsft(*SELECT)
    assert out.startswith("keep ") and "of 100 answers: kept.jsonl" in out
    assert "at most 20.0 % of the kept answers are wrong on average over calibrations" in out
    assert "after a single one it may be more" in out


def test_a_file_that_is_there_is_replaced_with_force_alone(
    calibsft: Command, files: object, tmp_path: Path
) -> None:
    (tmp_path / "kept.jsonl").write_text("mine")
    code, _, err = calibsft(*SELECT)
    assert code == 2 and "there is something of that name already; choose another --out" in err
    assert (tmp_path / "kept.jsonl").read_text() == "mine"
    assert calibsft(*SELECT, "--force")[0] == 0


@pytest.mark.parametrize(
    "rows, told",
    [
        ("question_id,confidence\nb,0.9\nb,0.8\n", "question 'b' has several answers, which err together"),
        ("question_id,answer\nb,7\n", "column 'confidence' is missing"),
        ("confidence\n", "the file has no rows"),
    ],
)
def test_a_batch_that_cannot_be_chosen_from_is_refused(
    calibsft: Command, files: object, tmp_path: Path, rows: str, told: str
) -> None:
    (tmp_path / "batch.csv").write_text(rows)
    code, out, err = calibsft(*SELECT)
    assert (code, out) == (2, "") and told in err and len(err.splitlines()) == 1
    assert not (tmp_path / "kept.jsonl").exists()


def test_answers_without_a_confidence_to_act_on_are_not_kept(
    calibsft: Command, files: object, tmp_path: Path
) -> None:
    (tmp_path / "batch.csv").write_text("confidence,well_formed\n1.0,true\n1.0,false\n,true\n")
    code, _, err = calibsft(*SELECT[:-1], "0.5", "--out", "k.csv")
    assert code == 0 and "count as never confident" in err
    assert (tmp_path / "k.csv").read_text() == "confidence,well_formed\n1.0,true\n"


def test_another_ending_is_refused_before_anything_is_read(calibsft: Command) -> None:
    code, _, err = calibsft("select", "no.csv", "no.csv", "--risk", "0.1", "--out", "kept.xlsx")
    assert code == 2 and "the name must end in .csv, .jsonl, .ndjson, .parquet" in err
