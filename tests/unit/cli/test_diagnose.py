"""`calibsft diagnose` at the command line: files, folders, models, what it prints and what it refuses."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from calibsft.prior import diagnose
from command import Command

SAMPLE = ("--benchmarks", "multiply-1,cross", "--limit", 10, "--max-new-tokens", 30, "--device", "cpu")


def responses(questions: int = 100, per_question: int = 8) -> pl.DataFrame:
    """High confidences whatever is asked, in two datasets that number their questions alike."""
    rng = np.random.default_rng(0)
    n = questions * per_question
    return pl.DataFrame(
        {
            "dataset": ["a", "b"] * (n // 2),
            "question_id": [str(i // (2 * per_question)) for i in range(n)],
            "confidence": rng.choice([0.9, 0.95, 1.0], n),
            "correct": rng.random(n) < 0.4,
        }
    )


@pytest.fixture
def rows(calibsft: Command, tmp_path: Path) -> pl.DataFrame:
    """The responses, also as a file in the folder where the command runs."""
    found = responses()
    found.write_csv(tmp_path / "r.csv")
    return found


def diagnosed(calibsft: Command, *arguments: object) -> dict[str, Any]:
    code, out, err = calibsft("diagnose", *arguments, "--json")
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def test_json_is_the_diagnosis_of_the_file_with_questions_told_apart_by_dataset(
    calibsft: Command, rows: pl.DataFrame
) -> None:
    questions = rows.select("dataset", "question_id").to_struct()
    expected = diagnose(rows["confidence"], rows["correct"], questions).to_json()
    found = diagnosed(calibsft, "r.csv")
    assert found == json.loads(json.dumps(expected))
    assert found["floor"]["questions"] == 100 and found["verdict"]["worth_it"] is True


def test_the_page_has_verdict_table_histogram_gradient_and_floor(
    calibsft: Command, rows: pl.DataFrame
) -> None:
    code, out, err = calibsft("diagnose", "r.csv", "--group-size", 4)
    assert code == 0, err
    lines = out.splitlines()
    assert lines[0] == "CalibSFT is worth it before RL:" and lines[1].startswith("- ")
    starts = [line.split("  ")[0] for line in lines]
    for part in ("all", "correct", "incorrect", "[0.9, 1.0]", "floor of the best of 4, δ²(1 − m)^4"):
        assert part in starts
    assert "Gradient of RL (Proposition 1, mean over 100 questions)" in out
    assert "98 of 101 values (probability format)" in out
    assert max(map(len, lines)) <= 105


@pytest.mark.parametrize("n, headline", [(1, "It is not known"), (2, "It is not known")])
def test_the_smallest_files_are_told_about_without_a_crash(
    calibsft: Command, tmp_path: Path, n: int, headline: str
) -> None:
    (tmp_path / "r.csv").write_text("confidence,correct\n" + "0.9,1\n" * n)
    code, out, err = calibsft("diagnose", "r.csv")
    assert code == 0, err
    assert headline in out.splitlines()[0] and "every response is right" in out


def test_unreadable_confidences_are_refused_or_left_out_and_told(calibsft: Command, tmp_path: Path) -> None:
    rows = responses().with_columns(pl.col("confidence").cast(pl.String))
    rows[0, "confidence"] = "\x1b[31mhigh"
    rows.write_csv(tmp_path / "r.csv")
    code, out, err = calibsft("diagnose", "r.csv", "--malformed", "error")
    assert (code, out) == (2, "") and "row 1: confidence" in err and "\x1b" not in err
    for policy in ("drop", "counted"):
        found = diagnosed(calibsft, "r.csv", "--malformed", policy)
        assert (found["n"], found["unreadable"]) == (799, pytest.approx(1 / 800))
    rows.with_columns(confidence=pl.lit("high")).write_csv(tmp_path / "r.csv")
    code, _, err = calibsft("diagnose", "r.csv", "--malformed", "drop")
    assert code == 2 and "r.csv: no response states a readable confidence" in err


def test_a_model_is_sampled_as_rl_would_and_its_folder_is_an_evaluation(
    calibsft: Command, short_base: Path
) -> None:
    code, out, err = calibsft("diagnose", short_base, *SAMPLE, "--samples", 8, "--out", "d", "--json")
    assert code == 0, err
    found = json.loads(out)
    sampled = pl.read_parquet("d/rows.parquet")
    assert sampled.height == 2 * 10 * 8
    assert found["n"] == sampled["confidence"].is_not_null().sum()
    assert found["floor"]["questions"] <= 20
    manifest = json.loads(Path("d/manifest.json").read_text())
    assert (manifest["stage"], manifest["model"]) == ("eval", str(short_base))
    # The same again samples nothing, and the folder can be diagnosed by itself, with its unreadable rows left out.
    code, again, err = calibsft("diagnose", short_base, *SAMPLE, "--samples", 8, "--out", "d", "--json")
    assert (code, again) == (0, out) and "done before, skipped" in err
    assert diagnosed(calibsft, "d") == found
    verdicts = diagnosed(calibsft, "d/verdicts")
    assert (verdicts["n"], verdicts["floor"]) == (found["n"], found["floor"])
    code, _, err = calibsft("diagnose", short_base, *SAMPLE, "--samples", 4, "--out", "d")
    assert code == 2 and "eval.samples was 8 and is now 4" in err


def test_samples_are_drawn_at_temperature_one_unless_told_otherwise(
    calibsft: Command, random_checkpoint: Path
) -> None:
    code, _, err = calibsft("diagnose", random_checkpoint, *SAMPLE, "--out", "d", "--samples", 2)
    assert code == 2 and "no response states a readable confidence" in err  # random weights
    recipe = Path("d/recipe.resolved.yaml").read_text()
    assert "temperature: 1.0" in recipe and "samples: 2" in recipe


@pytest.mark.parametrize(
    "arguments, told",
    [
        (("missing.csv",), "missing.csv: no such file"),
        (("missing.jsonl.gz",), "missing.jsonl.gz: no such file"),
        (("Qwen/Qwen3-8B",), "if it is a model on the Hub, which is sampled first, add --benchmarks"),
        (("Qwen/Qwen3-8B", "--benchmarks", "gsm8k"), "add --benchmarks, e.g. math-500,gsm8k, and --out"),
        (("r.csv", "--benchmarks", "gsm8k"), "leave out --out and sampling options"),
        (("r.csv", "--out", "d"), "leave out --out and sampling options"),
        (("r.csv", "--malformed", "skip"), "unknown policy for malformed confidences 'skip'"),
        (("r.csv", "--group-size", "0"), "greater than or equal to 1"),
        (("Qwen/Qwen3-8B", "--benchmarks", "gsm8kk", "--out", "d"), "did you mean 'gsm8k'"),
        (("Qwen/Qwen3-8B", "--benchmarks", ",", "--out", "d"), "no benchmark to evaluate on"),
        (("empty",), "a folder without part-*.parquet"),
        (("note.txt",), "unknown file type '.txt'"),
        (("other.csv",), "column 'confidence' is missing, but 'Confidence' is there; add --columns confidence=Confidence"),
    ],
)  # fmt: skip
def test_wrong_input_is_refused_in_one_sentence(
    calibsft: Command, rows: pl.DataFrame, tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "note.txt").write_text("0.9")
    (tmp_path / "other.csv").write_text("Confidence,correct\n0.9,1\n")
    code, out, err = calibsft("diagnose", *arguments)
    assert (code, out) == (2, ""), err
    assert told in err and err.count("\n") == 1 and "unexpected" not in err


def test_a_checkpoint_without_benchmarks_is_refused_with_what_to_add(
    calibsft: Command, random_checkpoint: Path
) -> None:
    code, _, err = calibsft("diagnose", random_checkpoint)
    assert code == 2 and "a model is sampled before it can be diagnosed; add --benchmarks" in err
