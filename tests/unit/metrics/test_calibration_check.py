"""The calibration check: what it counts, what it leaves out, and on what it does not depend."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import binom

from calibsft.errors import InputError
from calibsft.metrics import (
    ConfidenceTable,
    calibration_check,
    expected_calibration_error,
    recalibrated,
    score_file,
    score_table,
)
from calibsft.metrics.calibrated_outcomes import BAND_VALUES, calibrated_draws, consistency_band
from calibsft.metrics.calibration_check import likelihood_ratio, one_response_each
from command import Command


def responses(questions: int = 200, samples: int = 3, seed: int = 0, less: float = 0.0) -> pl.DataFrame:
    """Responses to questions of two datasets that are right as often as they say, or less often."""
    rng, n = np.random.default_rng(seed), questions * samples
    confidence = np.round(rng.beta(5, 2, n), 2)
    return pl.DataFrame(
        {
            "dataset": np.repeat(np.where(np.arange(questions) % 2, "x", "y"), samples),
            "question_id": np.repeat(np.arange(questions) // 2, samples).astype(str),
            "confidence": confidence,
            "correct": rng.random(n) < confidence - less,
        }
    )


def check_of(rows: pl.DataFrame, **options: Any) -> Any:
    return calibration_check(rows["confidence"], rows["correct"], rows.get_column("id"), **options)


def test_noise_is_that_of_the_binomial_distribution() -> None:
    """With one value the ECE of a draw is |k/n - c|, whose mean and quantile are known."""
    n, c = 50, 0.8
    found = calibration_check([c] * n, [1] * 40 + [0] * 10, draws=4000)
    k = np.arange(n + 1)
    gaps, chances = np.abs(k / n - c), binom.pmf(k, n, c)
    spread = np.sqrt((gaps**2 @ chances - (gaps @ chances) ** 2) / 4000)
    assert found["noise_ece"] == pytest.approx(gaps @ chances, abs=4 * spread)
    beyond = chances[gaps > found["noise_ece_95"] + 1e-9].sum()
    assert beyond <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / 4000)
    assert (found["n"], found["draws"], found["ece"]) == (n, 4000, pytest.approx(0))


def test_the_p_value_is_the_share_of_draws_that_fit_as_badly() -> None:
    """With one value a draw fits as badly if it is as unlikely relative to its own frequency."""
    n, right, c = 30, 18, 0.8
    k = np.arange(n + 1)
    ratios = [likelihood_ratio(ConfidenceTable(np.array([c]), np.array([n]), np.array([i]))) for i in k]
    exact = binom.pmf(k, n, c)[np.array(ratios) >= ratios[right] - 1e-9].sum()
    found = calibration_check([c] * n, [1] * right + [0] * (n - right), draws=4000)
    assert found["p_value"] == pytest.approx(exact, abs=4 * np.sqrt(exact / 4000))
    assert 0.002 < exact < 0.05


def test_the_likelihood_ratio_is_zero_at_its_best_and_never_negative_below_the_surest() -> None:
    fits = ConfidenceTable(np.array([0.25, 0.5]), np.array([4, 4]), np.array([1, 2]))
    assert likelihood_ratio(fits) == pytest.approx(0, abs=1e-12)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        table = ConfidenceTable.from_rows(rng.integers(1, 99, 50) / 100, rng.random(50) < 0.6)
        assert likelihood_ratio(table) > 0


def test_p_is_never_below_one_over_the_draws_and_one() -> None:
    found = calibration_check([0.9] * 200, [0] * 200, draws=99)
    assert found["p_value"] == 0.01 and found["ece"] == pytest.approx(0.9)


def test_one_error_at_full_confidence_does_not_refute_and_many_do() -> None:
    for wrong, refuted in ((0, False), (1, False), (10, True)):
        found = calibration_check([1.0] * 300, [0] * wrong + [1] * (300 - wrong), draws=99)
        assert (found["p_value"] < 0.05) == refuted and found["noise_ece"] == 0


def test_each_question_counts_once() -> None:
    rows = responses().with_columns(id=pl.struct("dataset", "question_id"))
    found, chosen = check_of(rows), one_response_each(rows.drop("id"))
    assert found["n"] == chosen.height == chosen.n_unique(["dataset", "question_id"]) == 200
    confidence, correct = chosen["confidence"].to_numpy(), chosen["correct"].to_numpy()
    table = ConfidenceTable.from_rows(confidence, correct)
    assert check_of(chosen.with_columns(id=pl.struct("dataset", "question_id")))["ece"] == pytest.approx(
        expected_calibration_error(table)
    )


def test_every_response_to_a_question_is_as_likely_to_be_taken() -> None:
    rows = pl.DataFrame(
        {"question_id": ["q"] * 4, "confidence": [0.1, 0.2, 0.3, 0.3], "correct": [0, 0, 0, 1]}
    )
    taken = pl.concat(one_response_each(rows, seed) for seed in range(800))
    often = taken.group_by("confidence", "correct").len()["len"]
    assert len(often) == 4 and all(abs(count - 200) < 4 * np.sqrt(800 * 3 / 16) for count in often)


def test_the_order_of_rows_and_the_kind_of_ids_change_nothing() -> None:
    rows = responses().with_columns(id=pl.concat_str("dataset", "question_id"))
    found = check_of(rows)
    for seed in range(3):
        assert check_of(rows.sample(fraction=1, shuffle=True, seed=seed)) == found
    whole = score_table(rows.drop("id"), check=True)
    for seed in range(3):
        shuffled = rows.drop("id").sample(fraction=1, shuffle=True, seed=seed)
        assert score_table(shuffled, check=True) == whole


def test_unreadable_confidences_are_left_out_and_their_questions_kept() -> None:
    found = calibration_check([None, 0.7, 0.7, None], [1, 1, 0, 1], ["a", "a", "b", "c"], draws=9)
    assert found["n"] == 2
    with pytest.raises(InputError, match="no response states a readable confidence"):
        calibration_check([None], [1])


def test_a_check_without_draws_and_a_negative_seed_are_refused() -> None:
    with pytest.raises(InputError, match="draws is 0; a check compares with one draw or more"):
        calibration_check([0.5], [1], draws=0)
    with pytest.raises(InputError, match="seed is -1; give 0 or a larger number"):
        calibration_check([0.5], [1], seed=-1)


def test_draws_keep_what_is_stated_and_are_the_same_for_a_seed() -> None:
    table = ConfidenceTable(np.array([0.0, 0.5, 1.0]), np.array([5, 1000, 7]), np.array([1, 1, 1]))
    (first,), (again,), (other,) = (list(calibrated_draws(table, 1, seed)) for seed in (0, 0, 1))
    assert first.k.tolist() == again.k.tolist() != other.k.tolist()
    assert first.n is table.n and first.k[0] == 0 and first.k[2] == 7 and 400 < first.k[1] < 600


def test_the_band_holds_nine_of_ten_calibrated_curves_at_each_value() -> None:
    values = np.array([0.2, 0.5, 0.8, 0.95])
    table = ConfidenceTable(values, np.array([100, 80, 90, 60]), np.array([1, 1, 1, 1]))
    stated, low, high = consistency_band(table)
    curves = np.array([recalibrated(drawn) for drawn in calibrated_draws(table, 1000, seed=5)])
    inside = ((curves >= low - 1e-12) & (curves <= high + 1e-12)).mean(axis=0)
    assert stated.tolist() == values.tolist() and (low <= values).all() and (values <= high).all()
    assert (inside > 0.9 - 4 * np.sqrt(0.09 * (1 / 1000 + 1 / 300))).all() and inside[1] < 0.97


def test_the_band_of_many_values_has_no_more_than_a_picture_can_show() -> None:
    table = ConfidenceTable.from_rows(np.linspace(0, 1, 5000), np.zeros(5000))
    stated, low, high = consistency_band(table, draws=5)
    assert len(stated) == len(low) == len(high) == BAND_VALUES
    assert (stated[0], stated[-1]) == (0, 1)


def test_scores_have_a_check_of_all_rows_and_every_dataset(tmp_path: Path) -> None:
    rows = responses(less=0.35)
    rows.write_csv(tmp_path / "r.csv")
    scores = score_file(tmp_path / "r.csv", check=True)
    parts = [part["check"] for part in scores["datasets"].values()]
    assert scores["overall"]["check"]["n"] == sum(part["n"] for part in parts) == 200
    assert all(part["p_value"] < 0.01 and part["ece"] > part["noise_ece_95"] for part in parts)
    assert score_table(rows, check=True)["overall"]["check"] == scores["overall"]["check"]
    assert "check" not in score_file(tmp_path / "r.csv")["overall"]
    bare = score_table(rows.select("confidence", "correct"), check=True)
    assert bare["overall"]["check"]["n"] == 600


def test_a_dataset_without_a_readable_confidence_has_no_check() -> None:
    rows = responses(20).with_columns(
        confidence=pl.when(pl.col("dataset") == "x").then("confidence").otherwise(None)
    )
    scores = score_table(rows, check=True)
    assert scores["datasets"]["y"]["check"] is None and scores["datasets"]["x"]["check"]["n"] == 10
    assert scores["overall"]["check"] == scores["datasets"]["x"]["check"]


def test_the_command_prints_the_check_and_says_what_it_rests_on(calibsft: Command, tmp_path: Path) -> None:
    rows = responses(less=0.35)
    rows.write_csv(tmp_path / "r.csv")
    code, out, _ = calibsft("score", "r.csv", "--check")
    _, table = out.split("calibration check, on one response to each question\n")
    header, *lines, note = table.splitlines()
    assert code == 0 and header.split() == ["n", "ECE", "noise", "noise", "95", "%", "p"]
    assert [line.split()[0] for line in lines] == ["all", "x", "y"] and "1,000 draws" in note
    check = score_table(rows, check=True)["overall"]["check"]
    shown = [f"{check[key]:.4f}" for key in ("ece", "noise_ece", "noise_ece_95", "p_value")]
    assert lines[0].split() == ["all", "rows", "200", *shown]
    rows.select("confidence", "correct").write_csv(tmp_path / "bare.csv")
    assert "as if every response were to another question" in calibsft("score", "bare.csv", "--check")[1]


@pytest.mark.parametrize("form", ["--csv", "--md"])
def test_a_check_has_no_row_in_a_table_of_scores(calibsft: Command, tmp_path: Path, form: str) -> None:
    responses().write_csv(tmp_path / "r.csv")
    code, out, told = calibsft("score", "r.csv", "--check", form)
    assert code == 2 and out == "" and "leave --csv and --md out" in told
