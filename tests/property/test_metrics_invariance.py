"""What must hold for every metric: row order and copies of all rows change nothing; ranges; definitions."""

from itertools import product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibsft.metrics import METRICS, evaluate

HUNDREDTHS = st.integers(0, 100).map(lambda hundredths: hundredths / 100)
CONFIDENCES = st.one_of(HUNDREDTHS, st.sampled_from([0.1, 0.3, 0.6, 0.7, 1.0]), st.floats(0, 1))
ROWS = st.lists(st.tuples(CONFIDENCES, st.booleans()), min_size=1, max_size=60)
Rows = list[tuple[float, bool]]


def scores(rows: Rows) -> dict[str, float | None]:
    found = evaluate([c for c, _ in rows], [z for _, z in rows])
    return {name: found[name] for name in METRICS}


@given(ROWS, st.randoms(use_true_random=False))
def test_row_order_changes_no_metric_by_a_single_bit(rows: Rows, random: Random) -> None:
    assert scores(random.sample(rows, len(rows))) == scores(rows)


# Ranks among n responses: these two approach a limit as rows are copied, and only there do copies change nothing.
FINITE = {"e_aurc", "rce"}


@given(ROWS, st.integers(2, 5))
def test_copies_of_all_rows_change_no_metric(rows: Rows, copies: int) -> None:
    before, after = scores(rows), scores(rows * copies)
    for name in METRICS.keys() - FINITE:
        value = before[name]
        assert after[name] == (None if value is None else pytest.approx(value, abs=1e-12)), name


@settings(max_examples=30)
@given(ROWS)
def test_finite_metrics_settle_as_rows_are_copied(rows: Rows) -> None:
    many, more = scores(rows * 400), scores(rows * 800)
    for name in FINITE:
        assert more[name] == pytest.approx(many[name], abs=0.01), name


@given(ROWS, st.randoms(use_true_random=False))
def test_question_metrics_do_not_depend_on_row_order_or_names(rows: Rows, random: Random) -> None:
    numbered = [(*row, i % 3) for i, row in enumerate(rows)]
    shuffled = random.sample(numbered, len(numbered))
    before = evaluate([c for c, _, _ in numbered], [z for _, z, _ in numbered], [q for *_, q in numbered])
    after = evaluate(
        [c for c, _, _ in shuffled], [z for _, z, _ in shuffled], [f"q{q}" for *_, q in shuffled]
    )
    assert after["cap_brier"] == pytest.approx(before["cap_brier"], abs=1e-12)
    assert after["questions"] == before["questions"]


@given(ROWS)
def test_metrics_stay_in_their_ranges(rows: Rows) -> None:
    found = scores(rows)
    distinct = len({c for c, _ in rows})
    assert found["support"] == distinct
    assert 1 - 1e-12 <= found["effective_support"] <= distinct + 1e-9
    assert found["top1"] <= found["top3"] <= 1
    for name in ("pass@1", "brier", "ece", "pce", "e_aurc", "rce_tie", "top1", "top3", "extreme_share"):
        assert 0 <= found[name] <= 1, name
    assert (found["rce"] is None) == (len(rows) == 1)
    assert found["pce"] <= found["ece"] + 1e-12


@settings(max_examples=50)
@given(ROWS)
def test_auroc_is_the_share_of_won_pairs(rows: Rows) -> None:
    pairs = list(product([c for c, z in rows if z], [c for c, z in rows if not z]))
    half_wins = sum(2 * (a > b) + (a == b) for a, b in pairs)
    assert scores(rows)["auroc"] == (half_wins / (2 * len(pairs)) if pairs else None)


@given(ROWS)
def test_auroc_of_the_complement_is_the_complement(rows: Rows) -> None:
    straight, turned = scores(rows)["auroc"], scores([(c, not z) for c, z in rows])["auroc"]
    assert turned == (None if straight is None else pytest.approx(1 - straight, abs=1e-12))
