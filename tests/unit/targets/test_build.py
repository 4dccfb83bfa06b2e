"""`calibsft build` on a user's own file: what is counted, what is discarded, what is written."""

import json
import sys
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pytest

from calibsft.cli import main
from calibsft.responses.formats import FORMATS
from calibsft.responses.parse import parse, render
from calibsft.targets.build import build
from calibsft.targets.calibsft import CalibSftSettings
from calibsft.targets.pool import Pool, pool_of_file

Row = dict[str, Any]
Build = Callable[..., pl.DataFrame]

THINK = "  Grüße\r\n\tà 2 × 3 = 6, 'quoted', \"too\"; <b>&amp;</b>\n\n"
OUTCOMES = {"q1": "RRRW", "q2": "RWWW", "q3": "RRWW", "q4": "RRRR", "q5": "WWWW"}


def rows_of(outcomes: dict[str, str] | None = None, stated: str = "0.90", repeats: int = 3) -> list[Row]:
    """Well-formed responses, `repeats` questions for each pattern of right and wrong rollouts."""
    return [
        {
            "question_id": f"{name}-{copy}",
            "question": f"What is {name} of {copy}?",
            "sample": sample,
            "response": render(f"{THINK}{sample}", f" {name} ", stated),
            "correct": mark == "R",
        }
        for copy in range(repeats)
        for name, marks in (outcomes or OUTCOMES).items()
        for sample, mark in enumerate(marks)
    ]


def write(path: Path, rows: list[Row]) -> Path:
    frame = pl.DataFrame(rows)
    if path.suffix == ".csv":
        frame.write_csv(path)
    elif path.suffix == ".parquet":
        frame.write_parquet(path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Build:
    """Run `calibsft build` in process; returns the training set."""

    def run(rows: list[Row], *options: str, name: str = "pool.jsonl", out: str = "out") -> pl.DataFrame:
        source = write(tmp_path / name, rows)
        monkeypatch.setattr(
            sys, "argv", ["calibsft", "build", str(source), "--out", str(tmp_path / out), *options]
        )
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code == 0
        return pl.read_parquet(tmp_path / out / "sft.parquet")

    return run


def summary(tmp_path: Path, out: str = "out") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((tmp_path / out / "targets.json").read_text())
    return found


@pytest.mark.parametrize("name", ["pool.csv", "pool.jsonl", "pool.parquet"])
def test_csv_jsonl_and_parquet_give_the_same_training_set(built: Build, name: str) -> None:
    expected = built(rows_of(), name="first.jsonl", out="first")
    assert built(rows_of(), name=name).equals(expected)
    assert len(expected) == 3 * 8


def test_the_training_set_has_its_columns(built: Build) -> None:
    table = built(rows_of())
    assert table.columns == [
        "draw", "dataset", "question_id", "sample", "question", "response", "target", "target_numerator",
        "target_denominator", "stratum_numerator", "stratum_denominator", "correct", "q", "successes", "rollouts", "token_ids", "prompt", "completion",
    ]  # fmt: skip
    assert table["token_ids"].null_count() == len(table)
    assert set(table["dataset"]) == {""}


def test_every_row_carries_its_target_in_number_and_text(built: Build) -> None:
    for row in built(rows_of()).iter_rows(named=True):
        marks = OUTCOMES[row["question_id"][:2]]
        q = Fraction(marks.count("R"), 4)
        target = q / 2 + Fraction(int(row["correct"]), 2)
        assert row["correct"] == (marks[row["sample"]] == "R")
        assert (row["successes"], row["rollouts"], row["q"]) == (marks.count("R"), 4, float(q))
        assert Fraction(row["target_numerator"], row["target_denominator"]) == target
        assert row["target"] == float(target)
        hundredths = int(target * 100 + Fraction(1, 2))
        assert parse(row["response"]).value == Fraction(hundredths, 100)


def test_balanced_groups_are_equal(built: Build) -> None:
    counts = Counter(built(rows_of()).select("target_numerator", "target_denominator").iter_rows())
    # Targets of the patterns: .875/.375, .625/.125, .75/.25, 1, 0.
    assert len(counts) == 8 and set(counts.values()) == {3}


def test_reasoning_and_answer_stay_byte_identical(built: Build) -> None:
    before = {(r["question_id"], r["sample"]): r["response"] for r in rows_of()}
    for row in built(rows_of(), name="pool.csv").iter_rows(named=True):
        old, new = before[row["question_id"], row["sample"]], row["response"]
        start = old.index("0.90")
        assert new[:start].encode() == old[:start].encode()
        assert new[start + 4 :].encode() == old[start + 4 :].encode()
        assert len(new) == len(old)


def test_layout_and_white_space_around_the_confidence_stay() -> None:
    text = "no opening tag</think>\n\n<answer>\n7\n</answer>\n<confidence>\n 0.10 </confidence>\n"
    rows = [{"question_id": 1, "question": "?", "response": text, "correct": z} for z in (True, False)]
    path_rows = pl.DataFrame(rows).with_columns(pl.col("question_id").cast(pl.String))
    frame = path_rows.with_columns(
        dataset=pl.lit(""), sample=pl.Series([0, 1]), finished=pl.lit(True), ending=pl.lit("finished"), reason=pl.lit("ok"),
        confidence=pl.lit(0.1),
        token_ids=pl.lit(None, dtype=pl.List(pl.Int32)),
    ).lazy()  # fmt: skip
    with TemporaryDirectory() as folder:
        pool = Pool(frame, (frame.collect().select,), frame, frame.unique("question_id"))
        build(pool, CalibSftSettings(), FORMATS["probability"], 0, "pool", Path(folder))
        found = set(pl.read_parquet(Path(folder, "sft.parquet"))["response"])
    assert found == {text.replace("0.10", "0.75"), text.replace("0.10", "0.25")}


def test_success_rates_come_before_filtering_and_reasons_are_counted(built: Build, tmp_path: Path) -> None:
    rows = rows_of({"q1": "RRWW"}, repeats=1)
    rows[1]["response"] = (
        "<think>a</think> <answer>b</answer> <confidence>nan</confidence>"  # right, malformed
    )
    rows[3]["response"] = rows[3]["response"].replace("<answer>", "")  # wrong, malformed
    rows += rows_of({"q2": "RWWW"}, repeats=1)
    rows[4] |= {"finished": False}  # right, but cut off
    rows[5] |= {"response": ""}  # wrong, and nothing was said
    for row in rows:
        row.setdefault("finished", True)
    table = built(rows, "--no-balance")
    assert dict(table.select("question_id", "successes").unique().iter_rows()) == {"q1-0": 2, "q2-0": 0}
    assert set(table["rollouts"]) == {4}
    found = summary(tmp_path)
    assert found["filtered"] == {
        "bad_confidence": 1, "empty_response": 1, "missing_answer": 1, "truncated": 1,
    }  # fmt: skip
    assert found["responses"] == 8 and found["rows"] == 4


@pytest.mark.parametrize("name", ["pool.csv", "pool.jsonl", "pool.parquet"])
def test_an_empty_cell_is_an_empty_response_and_still_counts(built: Build, tmp_path: Path, name: str) -> None:
    rows = rows_of({"q1": "RRWW"}, repeats=1)
    rows[2]["response"] = ""
    expected = built(rows, "--no-balance", name="text.jsonl", out="text")
    assert set(expected["rollouts"]) == {4} and len(expected) == 3
    rows[2]["response"] = None  # a bare ,, in the CSV, null elsewhere
    assert built(rows, "--no-balance", name=name).equals(expected)
    assert summary(tmp_path)["filtered"] == {"empty_response": 1}


def test_the_chat_file_holds_the_same_rows_with_prompt_and_response(built: Build, tmp_path: Path) -> None:
    table = built(rows_of())
    lines = (tmp_path / "out" / "sft.jsonl").read_text(encoding="utf-8").splitlines()
    chats = [json.loads(line) for line in lines]
    assert len(chats) == len(table)
    for chat, row in zip(chats, table.iter_rows(named=True), strict=True):
        system, user, assistant = chat["messages"]
        assert (system["role"], system["content"]) == ("system", FORMATS["probability"].system_prompt)
        assert (user["role"], user["content"]) == ("user", f"\n\nPROBLEM: {row['question']}\n\n")
        assert (assistant["role"], assistant["content"]) == ("assistant", row["response"])
        for key in ("question_id", "sample", "dataset", "draw", "correct", "target"):
            assert chat[key] == row[key]


def test_shuffled_rows_give_the_same_files_when_samples_are_numbered(built: Build, tmp_path: Path) -> None:
    rows = rows_of(repeats=6) + rows_of({"q9": "RRWW"}, repeats=9)
    built(rows)
    Random(3).shuffle(rows)
    built(rows, name="shuffled.jsonl", out="again")
    for name in ("labels.parquet", "sft.parquet", "sft.jsonl", "targets.json"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_samples_are_numbered_in_file_order_when_the_column_is_missing(built: Build) -> None:
    rows = [{key: value for key, value in row.items() if key != "sample"} for row in rows_of()]
    assert built(rows).equals(built(rows_of(), out="numbered"))


def test_another_seed_draws_other_rows(built: Build) -> None:
    first, second = (
        built(rows_of(repeats=9) + rows_of({"x": "RWWW"}, repeats=1), "--seed", s, out=s) for s in "12"
    )
    assert not first.equals(second)
    assert sorted(first["target"]) == sorted(second["target"])


def test_redraws_make_one_balanced_block_each(built: Build) -> None:
    rows = rows_of(repeats=1) + rows_of({"x": "RRRRWWWW"}, repeats=9)
    table = built(rows, "--redraws", "3")
    assert sorted(set(table["draw"])) == [0, 1, 2]
    blocks = [table.filter(pl.col("draw") == draw) for draw in range(3)]
    for block in blocks:
        sizes = Counter(block.select("target_numerator", "target_denominator").iter_rows())
        assert set(sizes.values()) == {1} and len(sizes) == 8
        assert not block.select("dataset", "question_id", "sample").is_duplicated().any()
    chosen = [frozenset(block.select("question_id", "sample").iter_rows()) for block in blocks]
    assert len(set(chosen)) == 3


@pytest.mark.parametrize(
    "name, stated, expected",
    [
        ("integer", "9", {"0", "1", "2", "3", "6", "7", "8", "9"}),
        ("linguistic", "high", {"low", "medium", "high"}),
        ("probability-0.05", "0.90", {"0.00", "0.15", "0.25", "0.40", "0.65", "0.75", "0.90", "1.00"}),
    ],
)
def test_other_formats_write_their_own_grid(built: Build, name: str, stated: str, expected: set[str]) -> None:
    table = built(rows_of(stated=stated), "--format", name)
    spans = [parse(text, name).value_span for text in table["response"]]
    texts = {text[slice(*span)] for text, span in zip(table["response"], spans, strict=True) if span}
    assert texts == expected
    assert len(table) == 3 * 8  # grouped by exact target, however coarse the text is


def test_csft_gives_both_responses_their_success_rate(built: Build) -> None:
    table = built(rows_of(), "--target", "csft")
    assert (table["target"] == table["q"]).all()


def test_lambda_changes_the_targets(built: Build) -> None:
    table = built(rows_of(), "--lambda", "0.2", "--no-balance")
    found = {row["target"] for row in table.iter_rows(named=True) if row["question_id"] == "q1-0"}
    assert found == {0.95, 0.15}


def test_without_balancing_every_well_formed_response_stays(built: Build) -> None:
    assert len(built(rows_of(), "--no-balance")) == len(rows_of())


def test_small_groups_are_left_out_and_said(
    built: Build, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    built(rows_of(repeats=2), "--min-group", "3")
    # q1's wrong and q2's right response occur twice each.
    assert "2 target groups below the minimum size left out (4 responses)" in capsys.readouterr().out
    assert summary(tmp_path)["dropped_groups"] == {"3/8": 2, "5/8": 2}


def test_a_group_of_one_is_warned_about(built: Build, capsys: pytest.CaptureFixture[str]) -> None:
    built(rows_of(repeats=1))
    assert "the smallest target group has one response" in capsys.readouterr().err


def test_the_histogram_before_and_after_is_printed(built: Build, capsys: pytest.CaptureFixture[str]) -> None:
    built(rows_of())
    shown = capsys.readouterr()
    lines = [line.split() for line in shown.out.splitlines() if "0.3, 0.4)" in line or "0.9, 1.0]" in line]
    # [.3,.4) holds q1's wrong responses (.375); [.9,1] holds q4's (1).
    assert [(line[2], line[4]) for line in lines] == [("3", "3"), ("12", "3")]
    assert "60 responses to 15 questions" in shown.out
    assert "kept 24 responses of" in shown.out and "3 of each of 8 targets" in shown.out


def test_json_is_the_only_thing_on_standard_output(built: Build, capsys: pytest.CaptureFixture[str]) -> None:
    built(rows_of(), "--json")
    found = json.loads(capsys.readouterr().out)
    assert found["rows"] == 24 and found["after"]["1/1"] == 3


def test_a_dataset_column_keeps_equal_ids_apart(built: Build) -> None:
    rows = [row | {"dataset": "a"} for row in rows_of({"q": "RWWW"}, repeats=1)]
    rows += [row | {"dataset": "b", "question": "Another?"} for row in rows_of({"q": "RRRW"}, repeats=1)]
    table = built(rows, "--no-balance")
    assert dict(table.select("dataset", "q").unique().iter_rows()) == {"a": 0.25, "b": 0.75}


@pytest.mark.parametrize("name", ["pool.jsonl", "pool.parquet"])
def test_sampled_token_ids_come_along(built: Build, name: str) -> None:
    rows = [row | {"token_ids": [i, 2**17]} for i, row in enumerate(rows_of())]
    expected = {(row["question_id"], row["sample"]): row["token_ids"] for row in rows}
    table = built(rows, name=name)
    assert table.schema["token_ids"] == pl.List(pl.Int32)
    for row in table.iter_rows(named=True):
        assert row["token_ids"] == expected[row["question_id"], row["sample"]]


def test_token_ids_in_a_csv_are_json_lists(built: Build) -> None:
    rows = [row | {"token_ids": json.dumps([i, 7])} for i, row in enumerate(rows_of())]
    table = built(rows, name="pool.csv")
    assert table["token_ids"].list.last().to_list() == [7] * len(table)


def test_ids_stay_text(built: Build) -> None:
    rows = rows_of({"q": "RW"}, repeats=2)
    for row in rows:
        row["question_id"] = "007" if row["question_id"].endswith("0") else "7"
    assert set(built(rows, name="pool.csv")["question_id"]) == {"007", "7"}


def test_truth_is_read_in_any_usual_spelling(tmp_path: Path) -> None:
    rows = rows_of({"q": "RWRW"}, repeats=1)
    for row, word in zip(rows, ("TRUE", "no", " 1 ", "Incorrect"), strict=True):
        row["correct"] = word
    pool = pool_of_file(write(tmp_path / "pool.csv", rows), FORMATS["probability"]).graded.collect()
    assert pool["correct"].to_list() == [True, False, True, False]


def test_a_finished_build_is_skipped_and_left_as_it_is(
    built: Build, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    built(rows_of())
    before = {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in (tmp_path / "out").iterdir()}
    capsys.readouterr()
    built(rows_of())
    assert "build: done before, skipped" in capsys.readouterr().err
    assert before == {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in (tmp_path / "out").iterdir()}
