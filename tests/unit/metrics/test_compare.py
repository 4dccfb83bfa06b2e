"""Intervals and paired differences: what they cover, what they are drawn by, and how they are told."""

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from calibsft.errors import InputError
from calibsft.metrics import METRICS, bootstrap, evaluate, score_table
from calibsft.metrics.bootstrap import Cells, Drawing, interval, resample
from calibsft.metrics.compare import differences
from calibsft.metrics.registry import COMPARED, TABLE_METRICS
from command import Command


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


def cells_of(rows: pl.DataFrame) -> Cells:
    questions = rows["question_id"].str.strip_prefix("q").cast(pl.Int64).to_numpy()
    return Cells.from_rows(
        rows["confidence"].to_numpy(), rows["correct"].to_numpy(), questions, questions.max() + 1
    )


def test_cells_with_every_question_once_give_the_plain_metrics() -> None:
    rows = responses(1, 0.3)
    plain: Mapping[str, object] = evaluate(rows["confidence"], rows["correct"], rows["question_id"])
    found = cells_of(rows).scores(list(METRICS))
    assert {name: found[name] for name in TABLE_METRICS} == {name: plain[name] for name in TABLE_METRICS}
    assert found["cap_brier"] == pytest.approx(plain["cap_brier"], abs=1e-12)


def test_a_question_drawn_twice_counts_twice() -> None:
    rows = responses(1, 0.3, questions=3)
    twice = pl.concat([rows[:4], rows[:4], rows[8:]])
    expected = evaluate(twice["confidence"], twice["correct"])
    cells = cells_of(rows)
    once, table = cells.tables(cells.counts @ np.array([[1, 2], [1, 0], [1, 1]], dtype=float))
    assert TABLE_METRICS["brier"](table) == expected["brier"]
    assert TABLE_METRICS["auroc"](table) == expected["auroc"]
    assert TABLE_METRICS["brier"](once) == evaluate(rows["confidence"], rows["correct"])["brier"]


def test_a_part_of_the_questions_has_their_responses_alone() -> None:
    rows = responses(1, 0.3)
    part = rows.filter(pl.col("dataset") == "y")
    expected: Mapping[str, object] = evaluate(part["confidence"], part["correct"])
    assert cells_of(rows).part(slice(30, 60)).scores(list(TABLE_METRICS)) == {
        name: expected[name] for name in TABLE_METRICS
    }


def test_copied_responses_do_not_narrow_the_interval() -> None:
    rows = responses(1, 0.3)
    estimate = cells_of(rows).scores(["brier"])["brier"]
    once, often = (resample([cells_of(r)], ["brier"], 300)[0] for r in (rows, pl.concat([rows] * 5)))
    ends = interval(once["brier"], estimate), interval(often["brier"], estimate)
    assert ends[0] == pytest.approx(ends[1], abs=1e-12)


def test_draws_do_not_depend_on_how_many_are_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "QUESTIONS_AT_ONCE", 7)
    cells = cells_of(responses(1, 0.3))
    (together,) = resample([cells], COMPARED, 30)
    monkeypatch.setattr(bootstrap, "DRAWS_AT_ONCE", 1)
    (singly,) = resample([cells], COMPARED, 30)
    for name in COMPARED:
        np.testing.assert_allclose(together[name], singly[name], rtol=0, atol=1e-12)


@pytest.mark.parametrize("span", [1, 7, 60])
def test_a_draw_is_of_as_many_questions_each_as_likely(monkeypatch: pytest.MonkeyPatch, span: int) -> None:
    monkeypatch.setattr(bootstrap, "QUESTIONS_AT_ONCE", span)
    each = Cells.from_rows(np.arange(60) / 60, np.ones(60, dtype=bool), np.arange(60), 60)
    ((drawn_V_B, _),) = Drawing(60, seed=0).sums([each], [each.question_figures(["cap_brier"])], 4000)
    weights_Q_B = drawn_V_B[1::2]
    assert (weights_Q_B.sum(axis=0) == 60).all()
    # Each is Binomial(60, 1/60): mean 1, variance 59/60; two of them have the covariance -1/60.
    assert np.abs(weights_Q_B.mean(axis=1) - 1).max() < 5 / np.sqrt(4000)
    covariance = np.cov(weights_Q_B)
    assert np.diag(covariance).mean() == pytest.approx(59 / 60, abs=0.02)
    apart = covariance[~np.eye(60, dtype=bool)]
    assert apart.mean() == pytest.approx(-1 / 60, abs=0.0005) and np.abs(apart).max() < 0.12


def test_spans_of_questions_are_drawn_independently(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "QUESTIONS_AT_ONCE", 30)
    each = Cells.from_rows(np.arange(60) / 60, np.ones(60, dtype=bool), np.arange(60), 60)
    first = [Drawing(60, seed).sums([each], [{}], 1)[0][0][1::2, 0] for seed in range(300)]
    between = np.cov(np.array(first).T)[np.arange(30), np.arange(30, 60)]
    assert abs(between.mean()) < 0.1


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


def test_the_difference_of_means_over_datasets_is_the_mean_of_their_differences() -> None:
    ours, baseline = responses(1, 0.05), responses(2, 0.5)
    found = differences(ours, baseline, replicates=300)
    mean = found["splits"]["mean over datasets"]["brier"]
    parts = [found["datasets"][name]["brier"]["difference"] for name in "xy"]
    assert mean["difference"] == pytest.approx(sum(parts) / 2, abs=1e-12)
    assert mean["low"] < mean["difference"] < mean["high"]


def test_only_common_questions_are_compared_and_the_others_counted() -> None:
    ours, baseline = responses(1, 0.3), responses(2, 0.3).filter(pl.col("question_id") != "q0")
    found = differences(ours, baseline, replicates=50)
    assert (found["questions"], found["left_out"]) == (59, 1)
    same = differences(ours.filter(pl.col("question_id") != "q0"), baseline, replicates=50)
    assert found["overall"] == same["overall"]
    with pytest.raises(InputError, match="no question in common"):
        differences(ours, baseline.with_columns(question_id=pl.lit("other")))


def test_a_dataset_without_a_name_has_intervals_too() -> None:
    rows = responses(1, 0.3).with_columns(pl.col("dataset").replace("x", ""))
    found = score_table(rows, intervals=True)["datasets"]
    assert set(found) == {"", "y"} and found[""]["intervals"]["brier"] is not None


def test_the_same_id_in_two_datasets_is_two_questions() -> None:
    number = pl.col("question_id").str.strip_prefix("q").cast(pl.Int64) % 30
    ours, baseline = (
        responses(seed, 0.3).with_columns(question_id=pl.format("q{}", number)) for seed in (1, 2)
    )
    found = differences(ours, baseline, replicates=50)
    assert found["questions"] == 60
    gap = score_table(ours)["overall"]["cap_brier"] - score_table(baseline)["overall"]["cap_brier"]
    assert found["overall"]["cap_brier"]["difference"] == pytest.approx(gap, abs=1e-12)


def test_a_metric_without_a_value_has_no_interval() -> None:
    rows = responses(1, 0.3).with_columns(correct=pl.lit(True))
    assert score_table(rows, intervals=True)["overall"]["intervals"]["auroc"] is None
    assert differences(rows, rows, replicates=20)["overall"]["auroc"] is None


def test_draws_depend_on_the_seed_alone() -> None:
    cells = cells_of(responses(1, 0.3))
    first, again, other = (resample([cells], ["brier"], 20, seed)[0]["brier"] for seed in (0, 0, 1))
    assert (first == again).all() and not (first == other).all()


def test_row_order_changes_no_interval() -> None:
    rows = responses(1, 0.3)
    shuffled = rows.sample(fraction=1, shuffle=True, seed=0)
    assert score_table(rows, intervals=True) == score_table(shuffled, intervals=True)


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
    assert "\nx:\n" in out and "\nmean, mean over datasets:\n" in out


def test_score_prints_csv_and_markdown(calibsft: Command, files: tuple[Path, Path]) -> None:
    code, out, _ = calibsft("score", files[0], "--csv", "--intervals")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert code == 0 and [row["part"] for row in rows] == ["all", "dataset", "dataset", "mean"]
    plain = score_table(pl.read_csv(files[0]))["overall"]
    assert float(rows[0]["brier"]) == plain["brier"] and float(rows[0]["brier_low"]) < plain["brier"]
    assert rows[3]["cap_brier"]
    code, out, _ = calibsft("score", files[0], "--md")
    assert code == 0 and out.startswith("| | n | pass@1 |") and "| x |" in out


def test_score_tells_the_correlation_over_datasets_once(calibsft: Command, tmp_path: Path) -> None:
    rows = responses(1, 0.3).with_columns(dataset=pl.format("d{}", pl.int_range(pl.len()) // 60))
    rows.write_csv(tmp_path / "r.csv")
    expected = score_table(rows)["splits"]["mean over datasets"]
    line = f"mean over datasets: Pearson {expected['pearson']:.4f}, Spearman {expected['spearman']:.4f}"
    assert calibsft("score", "r.csv")[1].count(line) == 1
    found = json.loads(calibsft("score", "r.csv", "--json")[1])
    assert found["splits"]["mean over datasets"]["pearson"] == expected["pearson"]
    *_, mean = csv.DictReader(io.StringIO(calibsft("score", "r.csv", "--csv")[1]))
    assert float(mean["spearman"]) == expected["spearman"]
    rows.with_columns(dataset=pl.lit("x")).write_csv(tmp_path / "one.csv")
    assert "Pearson" not in calibsft("score", "one.csv")[1]


def test_drawing_shows_how_far_it_is(calibsft: Command, files: tuple[Path, Path]) -> None:
    _, out, err = calibsft("score", files[0], "--intervals", "--baseline", files[1], "--json")
    assert json.loads(out)
    assert "intervals: 3,000/3,000 draws" in err and "differences: 3,000/3,000 draws" in err


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
