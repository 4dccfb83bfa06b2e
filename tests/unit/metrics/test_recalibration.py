"""Brier in three parts: against exact arithmetic, scikit-learn and model-diagnostics."""

import random
from fractions import Fraction

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

from calibsft.metrics import ConfidenceTable, brier, discrimination, miscalibration, recalibrated, uncertainty

Rows = list[tuple[Fraction, int]]


def drawn(seed: int) -> Rows:
    rng = random.Random(seed)
    values, rate = rng.choice([1, 2, 5, 101]), rng.random()
    stated = [Fraction(rng.randrange(values), max(values - 1, 1)) for _ in range(rng.randint(1, 150))]
    # Half of the cases are right the more often the surer they are, half without any relation.
    return [(c, int(rng.random() < (c if seed % 2 else rate))) for c in stated]


CASES: dict[str, Rows] = {
    "all right": [(Fraction(i, 7), 1) for i in range(8)],
    "all wrong": [(Fraction(i, 7), 0) for i in range(8)],
    "one value": [(Fraction(7, 10), z) for z in (1, 0, 0, 1, 1)],
    "one response": [(Fraction(3, 10), 1)],
    "reversed": [(Fraction(i, 50), int(i < 25)) for i in range(51)],
    "perfect": [(Fraction(i, 50), int(i >= 25)) for i in range(51)],
    "equal neighbours": [(Fraction(i, 4), z) for i in range(5) for z in (0, 1)],
    **{f"random {seed}": drawn(seed) for seed in range(40)},
}
EVERY_CASE = pytest.mark.parametrize("rows", CASES.values(), ids=CASES)


def arrays(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    return np.array([float(c) for c, _ in rows]), np.array([z for _, z in rows])


def table(rows: Rows) -> ConfidenceTable:
    return ConfidenceTable.from_rows(*arrays(rows))


def rising(rows: Rows) -> dict[Fraction, Fraction]:
    """Isotonic regression by its definition: the largest of the smallest means."""
    values = sorted({c for c, _ in rows})
    right = [sum(z for c, z in rows if c == value) for value in values]
    count = [sum(c == value for c, _ in rows) for value in values]

    def mean(start: int, end: int) -> Fraction:
        return Fraction(sum(right[start : end + 1]), sum(count[start : end + 1]))

    last = len(values)
    return {
        value: max(min(mean(start, end) for end in range(i, last)) for start in range(i + 1))
        for i, value in enumerate(values)
    }


@EVERY_CASE
def test_the_parts_agree_with_exact_arithmetic_and_add_up(rows: Rows) -> None:
    rows = rows[:60]
    counted, fitted = table(rows), rising(rows)
    accuracy = Fraction(sum(z for _, z in rows), len(rows))
    stated = sum((c - z) ** 2 for c, z in rows) / len(rows)
    best = sum((fitted[c] - z) ** 2 for c, z in rows) / len(rows)
    unknown = accuracy * (1 - accuracy)
    assert recalibrated(counted) == pytest.approx([float(fitted[c]) for c in sorted(fitted)], abs=1e-12)
    assert miscalibration(counted) == pytest.approx(float(stated - best), abs=1e-12)
    assert discrimination(counted) == pytest.approx(float(unknown - best), abs=1e-12)
    assert uncertainty(counted) == pytest.approx(float(unknown), abs=1e-12)
    total = miscalibration(counted) - discrimination(counted) + uncertainty(counted)
    assert total == pytest.approx(brier(counted), abs=1e-14)


@EVERY_CASE
def test_the_curve_is_scikit_learns_isotonic_regression_of_the_rows(rows: Rows) -> None:
    confidence, correct = arrays(rows)
    fitted = IsotonicRegression().fit(confidence, correct)
    counted = table(rows)
    assert recalibrated(counted) == pytest.approx(fitted.predict(counted.values), abs=1e-9)


@EVERY_CASE
def test_the_parts_are_those_of_model_diagnostics(rows: Rows) -> None:
    scoring = pytest.importorskip("model_diagnostics.scoring")
    if len(rows) == 1:
        pytest.skip("model-diagnostics does not decompose the score of a single response")
    confidence, correct = arrays(rows)
    squared = scoring.SquaredError()
    (theirs,) = scoring.decompose(correct, confidence, scoring_function=squared).to_dicts()
    counted = table(rows)
    assert miscalibration(counted) == pytest.approx(theirs["miscalibration"], abs=1e-9)
    assert discrimination(counted) == pytest.approx(theirs["discrimination"], abs=1e-9)
    assert uncertainty(counted) == pytest.approx(theirs["uncertainty"], abs=1e-9)
    assert brier(counted) == pytest.approx(theirs["score"], abs=1e-9)


def test_one_value_has_no_discrimination_and_its_squared_gap_as_miscalibration() -> None:
    counted = table(CASES["one value"])
    assert miscalibration(counted) == pytest.approx(0.01) and discrimination(counted) == 0
    assert uncertainty(counted) == pytest.approx(0.24)


def test_one_class_has_only_miscalibration() -> None:
    for case in ("all right", "all wrong"):
        counted = table(CASES[case])
        assert miscalibration(counted) == pytest.approx(brier(counted)) and brier(counted) > 0.1
        assert discrimination(counted) == uncertainty(counted) == 0


def test_a_perfect_ranking_discriminates_all_and_a_reversed_one_nothing() -> None:
    perfect, reverse = table(CASES["perfect"]), table(CASES["reversed"])
    assert discrimination(perfect) == pytest.approx(uncertainty(perfect))
    assert discrimination(reverse) == 0
