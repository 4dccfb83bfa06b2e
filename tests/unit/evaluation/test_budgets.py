"""`calibsft eval` on local benchmark files and under token budgets."""

import json
from pathlib import Path

import polars as pl
import pytest

from command import Command

EVAL = ("eval", "--benchmarks", "cross", "--limit", 4, "-n", 3, "--device", "cpu", "--max-new-tokens", 30)


def test_every_budget_is_evaluated_on_the_same_responses(calibsft: Command, short_base: Path) -> None:
    code, out, err = calibsft(
        *EVAL, "--model", short_base, "--budgets", "30,2,8", "--out", "e", "--temperature", 1, "--json"
    )
    assert code == 0, err
    budgets = json.loads(out)["budgets"]
    assert [part["budget"] for part in budgets] == [2, 8, 30]
    assert [part["overall"]["n"] for part in budgets] == [12] * 3
    assert (
        budgets[0]["forced"] == 1.0 and budgets[0]["forced"] >= budgets[1]["forced"] >= budgets[2]["forced"]
    )
    whole, cut = pl.read_parquet("e/rows.parquet"), pl.read_parquet("e/budgets/30/rows.parquet")
    kept = cut.filter(~pl.col("forced"))
    assert len(kept) > 0
    keys = ("dataset", "question_id", "sample")
    same = kept.join(whole, on=keys, suffix="_whole")
    assert (same["response"] == same["response_whole"]).all()
    assert (same["correct"] == same["correct_whole"]).all()


def test_budgets_are_shown_as_a_table_and_skipped_when_done(calibsft: Command, short_base: Path) -> None:
    arguments = (*EVAL, "--model", short_base, "--budgets", "4", "--out", "e")
    code, out, _ = calibsft(*arguments)
    assert code == 0 and "budget" in out and "100.0%" in out
    code, again, err = calibsft(*arguments)
    assert code == 0 and again == out and "skipped" in err


def test_the_rollouts_of_an_evaluation_can_be_graded_again(calibsft: Command, short_base: Path) -> None:
    assert calibsft(*EVAL, "--model", short_base, "--out", "e")[0] == 0
    code, _, err = calibsft("verify", "e/rollouts", "--out", "again")
    assert code == 0, err
    assert pl.read_parquet("again/part-*.parquet").equals(pl.read_parquet("e/verdicts/part-*.parquet"))


@pytest.mark.parametrize(
    "budgets, message",
    [
        ("0", "budgets"),
        ("x", "budgets"),
        ("4,4", "names a budget twice"),
        ("31", "exceeds eval.max_new_tokens 30"),
    ],
)
def test_budgets_that_cannot_be_are_refused(
    calibsft: Command, short_base: Path, budgets: str, message: str
) -> None:
    code, _, err = calibsft(*EVAL, "--model", short_base, "--budgets", budgets, "--out", "e")
    assert code == 2 and message in err and not Path("e").exists(), err


def test_a_benchmark_is_read_from_local_files(calibsft: Command, short_base: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    rows = [{"question": f"{a}*11", "answer": f"So. #### {a * 11}"} for a in range(10, 13)]
    (data / "gsm8k.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, out, err = calibsft(
        "eval", "--model", short_base, "--benchmarks", "gsm8k", "--data-dir", "data", "--out", "e",
        "--limit", 2, "--max-new-tokens", 30, "--device", "cpu", "--json",
    )  # fmt: skip
    assert code == 0, err
    assert json.loads(out)["overall"]["n"] == 2 * 4
    manifest = json.loads(Path("e/manifest.json").read_text())
    assert manifest["benchmarks"] == {"gsm8k": 1} and manifest["verifier"][0].startswith("math-")


def test_changed_benchmark_files_are_noticed(calibsft: Command, short_base: Path, tmp_path: Path) -> None:
    data = tmp_path / "data" / "gsm8k.jsonl"
    data.parent.mkdir()
    arguments = (
        "eval", "--model", short_base, "--benchmarks", "gsm8k", "--data-dir", "data", "--out", "e",
        "-n", 1, "--max-new-tokens", 30, "--device", "cpu",
    )  # fmt: skip
    for first in (10, 20):
        rows = [{"question": f"{a}*11", "answer": f"#### {a * 11}"} for a in range(first, first + 2)]
        data.write_text("".join(json.dumps(row) + "\n" for row in rows))
        code, _, err = calibsft(*arguments)
        assert code == (0 if first == 10 else 2), err
    assert "its input 'benchmark gsm8k' has changed" in err


def test_a_benchmark_without_its_data_is_refused_before_the_model_is_loaded(
    calibsft: Command, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    code, _, err = calibsft(
        "eval", "--model", "no-such-model", "--benchmarks", "gsm8k", "--data-dir", "data", "--out", "e"
    )
    assert code == 2 and "gsm8k" in err and "no-such-model" not in err and err.count("\n") == 1


def test_rollouts_of_a_benchmark(calibsft: Command, short_base: Path) -> None:
    arguments = (
        "rollout",
        "--model",
        short_base,
        "-n",
        2,
        "--limit",
        3,
        "--max-new-tokens",
        30,
        "--device",
        "cpu",
    )
    code, _, err = calibsft(*arguments, "--benchmark", "cross", "--out", "r", "--force-answer")
    assert code == 0, err
    assert len(pl.read_parquet("r/part-*.parquet")) == 6
    for wrong, told in (
        ((), "--questions or --benchmark is missing"),
        (("--benchmark", "cross", "--questions", "q.jsonl"), "--benchmark sets the same as another option"),
    ):
        code, _, err = calibsft(*arguments, *wrong, "--out", "other")
        assert code == 2 and told in err
