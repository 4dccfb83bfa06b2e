"""The metrics of ranks, over-confidence and questions against brute force in exact arithmetic."""

import random
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from calibsft.metrics import evaluate
from calibsft.metrics.rank_calibration import rank_calibration_error, rank_calibration_error_tied
from calibsft.metrics.ranking import SHORT
from calibsft.metrics.table import ConfidenceTable

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
    "edges, right above": [(edge, int(edge > Fraction(1, 2)), 0) for edge in EDGES],
    "reversed": [(Fraction(i, 50), int(i < 25), i % 5) for i in range(51)],
    "long ties": [(Fraction(i // (2 * SHORT), 4), i % 3 == 0, i % 7) for i in range(8 * SHORT)],
}
CASES = {**ADVERSARIAL, **{f"random {seed}": drawn(seed) for seed in range(60)}}


def measured(rows: Rows) -> dict[str, float | None]:
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
        "cap_brier": capability(rows),
    }
    assert {name: found[name] for name in expected} == {
        name: pytest.approx(float(value), abs=1e-12) for name, value in expected.items()
    }


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
