"""Every metric against an oracle: brute force in exact arithmetic, scikit-learn, scipy, and another project's AURC."""

import json
import math
import random
from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats
from sklearn.metrics import brier_score_loss, roc_auc_score

from calibsft.metrics import evaluate, score_table
from calibsft.metrics.correlation import pearson, spearman
from calibsft.metrics.rank_calibration import rank_calibration_error, rank_calibration_error_tied
from calibsft.metrics.ranking import (
    SHORT,
    area_under_risk_coverage,
    excess_area_under_risk_coverage,
)
from calibsft.metrics.table import ConfidenceTable

RISK_COVERAGE_CASES = Path(__file__).parents[4] / "shared/data/vectors/fdshifts_rc_cases.json"

Rows = list[tuple[Fraction, int, int]]  # confidence, correct, question


def drawn(seed: int) -> Rows:
    rng = random.Random(seed)
    values = rng.choice([1, 2, 5, 101])
    rate = rng.random()
    return [
        (Fraction(rng.randrange(values), max(values - 1, 1)), int(rng.random() < rate), rng.randrange(4))
        for _ in range(rng.randint(2, 120))
    ]


EDGES = [Fraction(tenths, 10) for tenths in range(11)]
ADVERSARIAL = {
    "all ties": [(Fraction(7, 10), z, 0) for z in (1, 0, 0, 1, 1)],
    "all right": [(Fraction(i, 7), 1, i) for i in range(8)],
    "all wrong": [(Fraction(i, 7), 0, i) for i in range(8)],
    "edges": [(edge, z, z) for edge in EDGES for z in (0, 1)],
    "tied edges": [
        (Fraction(edge, 10), z, edge % 2) for edge in (1, 3, 6, 7, 10) for z in (0, 1, 1)[: 1 + edge % 3]
    ],
    "all at one": [(Fraction(1), z, z) for z in (1, 1, 0)],
    "edges, right above": [(edge, int(edge > Fraction(1, 2)), 0) for edge in EDGES],
    "reversed": [(Fraction(i, 50), int(i < 25), i % 5) for i in range(51)],
    "long ties": [(Fraction(i // (2 * SHORT), 4), i % 3 == 0, i % 7) for i in range(8 * SHORT)],
}
CASES = {**ADVERSARIAL, **{f"random {seed}": drawn(seed) for seed in range(60)}}


def measured(rows: Rows) -> Mapping[str, Any]:
    return evaluate([float(c) for c, _, _ in rows], [z for _, z, _ in rows], [q for *_, q in rows])


def calibration(rows: Rows) -> tuple[Fraction, Fraction]:
    """ECE and PCE."""
    bins: dict[int, list[Fraction]] = {}
    for c, z, _ in rows:
        bins.setdefault(min(int(c * 10), 9), []).append(c - z)
    gaps = [sum(part, Fraction(0)) for part in bins.values()]
    return Fraction(sum(map(abs, gaps)), len(rows)), Fraction(sum(max(g, 0) for g in gaps), len(rows))


def excess_area(rows: Rows) -> Fraction:
    n, wrong = len(rows), sum(1 - z for _, z, _ in rows)
    area, taken, errors = Fraction(0), 0, 0
    for value in sorted({c for c, _, _ in rows}, reverse=True):
        block = [z for c, z, _ in rows if c == value]
        missed = len(block) - sum(block)
        area += sum(
            (errors + Fraction(j * missed, len(block))) / (taken + j) for j in range(1, len(block) + 1)
        )
        taken, errors = taken + len(block), errors + missed
    best = sum((Fraction(k - (n - wrong), k) for k in range(n - wrong + 1, n + 1)), Fraction(0))
    return (area - best) / n


def rank_error(rows: Rows, bins: int = 20) -> Fraction:
    """Every response by itself: its place by confidence, and how many are at least as accurate as its bin."""
    n = len(rows)
    share = {
        c: Fraction(sum(z for d, z, _ in rows if d == c), sum(d == c for d, _, _ in rows)) for c, _, _ in rows
    }
    accuracy = [share[c] for c, _, _ in sorted(rows, key=lambda row: -row[0])]
    spans = [(a, b) for a, b in pairwise(round(end) for end in np.linspace(0, n, bins + 1)) if b > a]
    regressed = [sum(accuracy[a:b], Fraction(0)) / (b - a) for a, b in spans for _ in range(a, b)]
    total = Fraction(0)
    for a, b in spans:
        better = sum(other >= regressed[a] for other in regressed) - 1 - Fraction(b - a - 1, 2)
        total += sum(abs(better - place) for place in range(a, b))
    return total / (n * (n - 1))


def tied_rank_error(rows: Rows, bins: int = 20) -> Fraction:
    """Every value in the bin of its middle response; every response with the middle rank of its bin."""
    n = len(rows)
    members: dict[int, list[int]] = {}
    taken = 0
    for value in sorted({c for c, _, _ in rows}, reverse=True):
        block = [z for c, z, _ in rows if c == value]
        middle = taken + Fraction(len(block), 2)
        members.setdefault(min(math.floor(middle / n * bins), bins - 1), []).extend(block)
        taken += len(block)
    accuracy = {number: Fraction(sum(block), len(block)) for number, block in members.items()}
    total = Fraction(0)
    for number, block in members.items():
        above = sum(len(other) for place, other in members.items() if place < number)
        better = sum(len(other) for place, other in members.items() if accuracy[place] > accuracy[number])
        equal = sum(len(other) for place, other in members.items() if accuracy[place] == accuracy[number])
        gap = abs(above + Fraction(len(block), 2) - better - Fraction(equal, 2))
        total += len(block) * gap
    return total / n**2


def capability(rows: Rows) -> Fraction:
    parts: dict[int, list[Fraction]] = {}
    for c, z, q in rows:
        parts.setdefault(q, []).append(c - z)
    return Fraction(sum((sum(gaps, Fraction(0)) / len(gaps)) ** 2 for gaps in parts.values()), len(parts))


@pytest.mark.parametrize("case", CASES)
def test_metrics_agree_with_brute_force_to_twelve_digits(case: str) -> None:
    rows, found = CASES[case], measured(CASES[case])
    ece, pce = calibration(rows)
    expected = {
        "ece": ece,
        "pce": pce,
        "e_aurc": excess_area(rows),
        "rce": rank_error(rows),
        "rce_tie": tied_rank_error(rows),
        "cap_brier": capability(rows),
        "mean_confidence": sum((c for c, _, _ in rows), Fraction(0)) / len(rows),
    }
    assert {name: found[name] for name in expected} == {
        name: pytest.approx(float(value), abs=1e-12) for name, value in expected.items()
    }


@pytest.mark.parametrize("case", CASES)
def test_brier_and_auroc_agree_with_scikit_learn_to_twelve_digits(case: str) -> None:
    rows, found = CASES[case], measured(CASES[case])
    confidence, correct = [float(c) for c, _, _ in rows], [int(z) for _, z, _ in rows]
    assert found["brier"] == pytest.approx(brier_score_loss(correct, confidence, pos_label=1), abs=1e-12)
    if len(set(correct)) == 1:
        assert found["auroc"] is None
    else:
        assert found["auroc"] == pytest.approx(roc_auc_score(correct, confidence), abs=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_correlations_agree_with_scipy_with_ties_too(seed: int) -> None:
    rng = np.random.default_rng(seed)
    digits = int(rng.integers(1, 4))
    confidence, accuracy = (np.round(rng.random(int(seed) + 3), digits).tolist() for _ in range(2))
    assert pearson(confidence, accuracy) == pytest.approx(stats.pearsonr(confidence, accuracy)[0], abs=1e-9)
    assert spearman(confidence, accuracy) == pytest.approx(stats.spearmanr(confidence, accuracy)[0], abs=1e-9)


def test_correlations_are_between_the_means_of_the_datasets_of_a_split() -> None:
    rng = np.random.default_rng(0)
    number = rng.integers(0, 8, 800)
    frame = pl.DataFrame(
        {
            "dataset": [f"d{i}" for i in number],
            "split": ["id" if i < 5 else "ood" if i < 7 else "one" for i in number],
            "confidence": np.round(rng.random(800) ** (1 + number / 4), 2),
            "correct": rng.random(800) < 0.2 + number / 20,
        }
    )
    splits = score_table(frame)["splits"]
    for split, part in {"mean over datasets": frame, "id": frame.filter(split="id")}.items():
        means = part.drop("split").group_by("dataset").mean()
        expected = stats.pearsonr(means["confidence"], means["correct"])[0]
        assert splits[split]["pearson"] == pytest.approx(expected, abs=1e-9)
        expected = stats.spearmanr(means["confidence"], means["correct"])[0]
        assert splits[split]["spearman"] == pytest.approx(expected, abs=1e-9)
    assert (splits["ood"]["pearson"], splits["one"]["spearman"]) == (None, None)


@pytest.mark.parametrize("correlation", [pearson, spearman])
def test_a_constant_side_has_no_correlation_however_it_was_rounded(correlation: Any) -> None:
    assert correlation([0.1, (0.1 + 0.1 + 0.1) / 3, 0.1], [0.1, 0.2, 0.3]) is None
    assert correlation([0.1, 0.2, 0.3], [0.5, 0.5, 0.5]) is None
    assert correlation([0.1, 0.2], [0.1, 0.2]) is None


def risk_coverage_cases() -> list[Any]:
    """The cases of fd-shifts with a right or a wrong answer in every row, and with a result.

    The others have graded or missing answers or missing confidences, which ours refuses or counts elsewhere.
    """
    if not RISK_COVERAGE_CASES.is_file():
        return []
    cases = json.loads(RISK_COVERAGE_CASES.read_text())
    usable = [case for case in cases if "aurc" in case and set(case["correct"]) <= {0.0, 1.0}]
    return [pytest.param(case, id=case["id"]) for case in usable]


def unit_range(confidence: list[float]) -> list[float]:
    """Some of their confidences are outside [0, 1]; only the order counts here."""
    places = sorted(set(confidence))
    return [places.index(c) / len(places) for c in confidence]


TIED_CASES = ("confid-01_p-01", "confid-10_p-01", "confid-plateaus_p-01", "confid-plateaus_p-plateau-perm")


def trapezoids(counted: ConfidenceTable) -> float:
    """The area between the ends of the tied blocks, by straight lines."""
    coverage = np.cumsum(counted.n[::-1])
    risk = np.cumsum(counted.wrong[::-1]) / coverage
    return float(np.trapezoid([risk[0], *risk], [0, *coverage]) / counted.responses)


@pytest.mark.skipif(not RISK_COVERAGE_CASES.is_file(), reason="the vectors are not beside this checkout")
@pytest.mark.parametrize("case", risk_coverage_cases())
def test_risk_coverage_agrees_with_fd_shifts_where_the_conventions_do(case: Any) -> None:
    """Theirs integrates the curve by trapezoids, from the first risk at coverage 0; ours is the mean of its n points.

    Without ties the two differ by (first risk - last risk) / 2n, exactly. With ties theirs joins the ends of the blocks by
    straight lines and ours takes the errors of a block in proportion: the same only where the risk does not change at all.
    Their best area is the limit a + (1 - a) ln(1 - a) at the error rate a, ours is that of n responses; `augrc` and the
    `_achievable` fields are other metrics.
    """
    counted = ConfidenceTable.from_rows(np.array(unit_range(case["confid"])), np.array(case["correct"]))
    n, wrong = counted.responses, int(counted.wrong.sum())
    tied, constant = bool((counted.n > 1).any()), len(counted.values) == 1 or wrong in (0, n)
    if tied and not constant:
        assert case["id"] in TIED_CASES
        assert trapezoids(counted) == pytest.approx(case["aurc"], abs=1e-12)
        return
    rate = wrong / n
    bend = 0.0 if constant else (int(counted.wrong[-1]) - rate) / (2 * n)
    assert area_under_risk_coverage(counted) + bend == pytest.approx(case["aurc"], abs=1e-12)
    limit = rate + (1 - rate) * math.log(1 - rate) if wrong < n else 1.0
    finite = float(sum((Fraction(k - (n - wrong), k) for k in range(n - wrong + 1, n + 1)), Fraction(0)) / n)
    ours = excess_area_under_risk_coverage(counted) + bend + finite - limit
    assert ours == pytest.approx(case["eaurc"], abs=1e-12)


def table(rows: Rows) -> ConfidenceTable:
    return ConfidenceTable.from_rows(
        np.array([float(c) for c, _, _ in rows]), np.array([z for _, z, _ in rows])
    )


def test_few_values_raise_the_rank_error_but_not_the_tied_one() -> None:
    rng = np.random.default_rng(0)
    confidence = np.round(rng.random(20_000), 2)
    correct = rng.random(20_000) < confidence
    many = ConfidenceTable.from_rows(confidence, correct)
    few = ConfidenceTable.from_rows(np.round(confidence), correct)
    found = [rank_calibration_error(many), rank_calibration_error(few)]
    assert found[0] is not None and found[1] is not None and found[0] < 0.03 and found[1] > 0.15
    assert rank_calibration_error_tied(many) < 0.01 and rank_calibration_error_tied(few) == 0


def test_the_tied_rank_error_of_a_reversed_ranking_is_a_half() -> None:
    rows = [(Fraction(i, 100), 0 if i >= 50 else 1, i) for i in range(100)]
    assert rank_calibration_error_tied(table(rows)) == pytest.approx(0.5)
    rising = [(Fraction(i, 3), int(j < i), 0) for i in range(4) for j in range(3)]
    assert rank_calibration_error_tied(table(rising)) == 0
