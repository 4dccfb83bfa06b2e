"""Intervals and paired differences: what they cover, what they are drawn by, and how they are told."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from calibsft.errors import InputError
from calibsft.metrics import METRICS, evaluate, score_table
from calibsft.metrics.bootstrap import CAP_BRIER, Cells, interval, resample
from calibsft.metrics.compare import COMPARED, differences, draws_of

Command = Callable[..., tuple[int, str, str]]


def responses(seed: int, noise: float, questions: int = 60, samples: int = 4) -> pl.DataFrame:
    """Responses whose confidence is the chance of being right, blurred; chances are the same for every seed."""
    rng, chances = np.random.default_rng(seed), np.random.default_rng(0).random(questions)
    asked = np.repeat(np.arange(questions), samples)
    chance = chances[asked]
    return pl.DataFrame(
        {
            "question_id": [f"q{i}" for i in asked],
            "dataset": ["x" if i < questions // 2 else "y" for i in asked],
            "confidence": np.round(np.clip(chance + noise * rng.normal(size=len(asked)), 0, 1), 2),
            "correct": rng.random(len(asked)) < chance,
        }
    )


def test_cells_with_every_question_once_give_the_plain_metrics() -> None:
    rows = responses(1, 0.3)
    questions = rows["question_id"].rank("dense").to_numpy().astype(int) - 1
    cells = Cells.from_rows(rows["confidence"].to_numpy(), rows["correct"].to_numpy(), questions, 60)
    table = cells.table(np.ones(60, dtype=np.int64))
    plain = evaluate(rows["confidence"], rows["correct"], rows["question_id"])
    assert {name: metric(table) for name, metric in METRICS.items()} == {
        name: plain[name] for name in METRICS
    }
    assert cells.capability_gaps().mean() == pytest.approx(plain[CAP_BRIER], abs=1e-12)


def test_a_question_drawn_twice_counts_twice() -> None:
    rows = responses(1, 0.3, questions=3)
    questions = np.repeat(np.arange(3), 4)
    cells = Cells.from_rows(rows["confidence"].to_numpy(), rows["correct"].to_numpy(), questions, 3)
    twice = pl.concat([rows[:4], rows[:4], rows[8:]])
    expected = evaluate(twice["confidence"], twice["correct"])
    table = cells.table(np.array([2, 0, 1]))
    assert METRICS["brier"](table) == expected["brier"] and METRICS["auroc"](table) == expected["auroc"]


def test_copied_responses_do_not_narrow_the_interval() -> None:
    rows = responses(1, 0.3)
    once, often = draws_of(rows, 300), draws_of(pl.concat([rows] * 5), 300)
    assert interval(once["brier"]) == pytest.approx(interval(often["brier"]), abs=1e-12)


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    truth = 0.0  # both are the same system
    held = 0
    for seed in range(100):
        pair = responses(2 * seed, 0.3), responses(2 * seed + 1, 0.3)
        found = differences(*pair, names=["brier"], replicates=200)["overall"]["brier"]
        held += found["low"] <= truth <= found["high"]
    assert 88 <= held <= 100


def test_the_difference_is_that_of_the_scores_and_is_found() -> None:
    ours, baseline = responses(1, 0.05), responses(2, 0.5)
    found = differences(ours, baseline, replicates=300)
    scores = [score_table(rows)["overall"]["brier"] for rows in (ours, baseline)]
    brier = found["overall"]["brier"]
    assert brier["difference"] == pytest.approx(scores[0] - scores[1])
    assert brier["low"] < brier["difference"] < brier["high"] < 0
    assert set(found["datasets"]) == {"x", "y"} and set(found["overall"]) == set(COMPARED)


def test_only_common_questions_are_compared_and_the_others_counted() -> None:
    ours, baseline = responses(1, 0.3), responses(2, 0.3).filter(pl.col("question_id") != "q0")
    found = differences(ours, baseline, replicates=50)
    assert (found["questions"], found["left_out"]) == (59, 1)
    same = differences(ours.filter(pl.col("question_id") != "q0"), baseline, replicates=50)
    assert found["overall"] == same["overall"]
    with pytest.raises(InputError, match="no question in common"):
        differences(ours, baseline.with_columns(question_id=pl.lit("other")))


def test_a_metric_without_a_value_has_no_interval() -> None:
    rows = responses(1, 0.3).with_columns(correct=pl.lit(True))
    assert score_table(rows, intervals=True)["overall"]["intervals"]["auroc"] is None
    assert differences(rows, rows, replicates=20)["overall"]["auroc"] is None


def test_draws_depend_on_the_seed_alone() -> None:
    rows = responses(1, 0.3)
    cells = Cells.from_rows(
        rows["confidence"].to_numpy(), rows["correct"].to_numpy(), np.repeat(np.arange(60), 4), 60
    )
    first, again, other = (resample(cells, ["brier"], 20, seed)["brier"] for seed in (0, 0, 1))
    assert (first == again).all() and not (first == other).all()


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    paths = tmp_path / "ours.csv", tmp_path / "other.csv"
    for path, rows in zip(paths, (responses(1, 0.05), responses(2, 0.5)), strict=True):
        rows.write_csv(path)
    return paths


def test_score_compares_two_files(calibsft: Command, files: tuple[Path, Path]) -> None:
    code, out, err = calibsft("score", files[0], "--baseline", files[1], "--json")
    assert code == 0, err
    found = json.loads(out)["against"]
    assert found["questions"] == 60 and found["overall"]["brier"]["high"] < 0
    code, out, _ = calibsft("score", files[0], "--baseline", files[1])
    assert code == 0 and "on 60 questions" in out and "brier" in out


def test_score_prints_csv_and_markdown(calibsft: Command, files: tuple[Path, Path]) -> None:
    code, out, _ = calibsft("score", files[0], "--csv", "--intervals")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert code == 0 and [row["part"] for row in rows] == ["all", "dataset", "dataset", "mean"]
    plain = score_table(pl.read_csv(files[0]))["overall"]
    assert float(rows[0]["brier"]) == plain["brier"] and float(rows[0]["brier_low"]) < plain["brier"]
    assert rows[3]["cap_brier"]
    code, out, _ = calibsft("score", files[0], "--md")
    assert code == 0 and out.startswith("| | n | pass@1 |") and "| x |" in out


def test_a_name_is_no_formula_in_a_spreadsheet(calibsft: Command, tmp_path: Path) -> None:
    rows = responses(1, 0.3).with_columns(dataset=pl.lit("=1+1"))
    rows.write_csv(tmp_path / "r.csv")
    assert "\ndataset,'=1+1," in calibsft("score", "r.csv", "--csv")[1]


def test_another_column_can_part_the_scores(calibsft: Command, tmp_path: Path) -> None:
    rows = responses(1, 0.3).with_columns(level=pl.int_range(pl.len()) % 3)
    rows.write_csv(tmp_path / "r.csv")
    found = json.loads(calibsft("score", "r.csv", "--by", "level", "--json")[1])
    assert set(found["datasets"]) == {"0", "1", "2"}


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("--json", "--csv"), "choose one"),
        (("--by", "levle"), "column 'levle' is missing"),
        (("--baseline", "none.csv"), "none.csv: no such file"),
    ],
)
def test_what_cannot_be_scored_is_told(
    calibsft: Command, files: tuple[Path, Path], arguments: tuple[str, ...], message: str
) -> None:
    code, _, err = calibsft("score", files[0], *arguments)
    assert code == 2 and message in err and err.count("\n") == 1


@pytest.mark.parametrize("option", [("--intervals",), ("--baseline", "r.csv")])
def test_questions_are_needed_to_draw_them(
    calibsft: Command, tmp_path: Path, option: tuple[str, ...]
) -> None:
    responses(1, 0.3).drop("question_id").write_csv(tmp_path / "r.csv")
    code, _, err = calibsft("score", "r.csv", *option)
    assert code == 2 and "question_id" in err
