"""What must hold for every metric: row order, order among ties and copies of all rows change nothing; ranges; definitions."""

from collections.abc import Callable
from itertools import product
from random import Random
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibsft.metrics import MEAN_OVER_DATASETS, METRICS, ConfidenceTable, evaluate, score_table
from calibsft.metrics.registry import TABLE_METRICS

HUNDREDTHS = st.integers(0, 100).map(lambda hundredths: hundredths / 100)
CONFIDENCES = st.one_of(HUNDREDTHS, st.sampled_from([0.1, 0.3, 0.6, 0.7, 1.0]), st.floats(0, 1))
ROWS = st.lists(st.tuples(CONFIDENCES, st.booleans()), min_size=1, max_size=60)
# Few values and many rows of each, a question and a dataset.
TIED = st.lists(
    st.tuples(
        st.sampled_from([0.1, 0.3, 0.6, 0.7, 1.0]), st.booleans(), st.integers(0, 3), st.sampled_from("abcd")
    ),
    min_size=1,
    max_size=40,
)
NAMED = st.lists(
    st.tuples(CONFIDENCES, st.booleans(), st.integers(0, 3), st.sampled_from("abcd")), min_size=1, max_size=40
)
Rows = list[tuple[float, bool]]
NamedRows = list[tuple[float, bool, int, str]]
Value = float | None


def scores(rows: Rows) -> dict[str, Any]:
    found: dict[str, Any] = dict(evaluate([c for c, _ in rows], [z for _, z in rows]))
    return {name: found[name] for name in TABLE_METRICS}


def of_the_table(metric: Callable[[ConfidenceTable], Value]) -> Callable[[NamedRows], Value]:
    def value(rows: NamedRows) -> Value:
        confidence, correct = (np.array([row[i] for row in rows]) for i in (0, 1))
        return metric(ConfidenceTable.from_rows(confidence, correct))

    return value


def cap_brier(rows: NamedRows) -> Value:
    return evaluate([c for c, *_ in rows], [z for _, z, *_ in rows], [q for *_, q, _ in rows])["cap_brier"]


def over_datasets(name: str) -> Callable[[NamedRows], Value]:
    def value(rows: NamedRows) -> Value:
        frame = pl.DataFrame(rows, ["confidence", "correct", "question_id", "dataset"], orient="row")
        found: dict[str, Any] = dict(score_table(frame)["splits"][MEAN_OVER_DATASETS])
        return found[name]

    return value


# Every metric there is, as a function of rows.
SUITE: dict[str, Callable[[NamedRows], Value]] = {
    **{name: of_the_table(metric) for name, metric in TABLE_METRICS.items()},
    "cap_brier": cap_brier,
    "pearson": over_datasets("pearson"),
    "spearman": over_datasets("spearman"),
    "ece_pooled": over_datasets("ece_pooled"),
}
# Ranks among n responses: these two approach a limit as rows are copied, and only there do copies change nothing.
FINITE = ("e_aurc", "rce")
# A quotient of small differences where the datasets are nearly alike.
CORRELATIONS = ("pearson", "spearman")


@pytest.mark.parametrize("name", SUITE)
@settings(max_examples=40, deadline=None)
@given(rows=NAMED, random=st.randoms(use_true_random=False))
def test_row_order_changes_no_metric_by_a_single_bit(name: str, rows: NamedRows, random: Random) -> None:
    assert SUITE[name](random.sample(rows, len(rows))) == SUITE[name](rows)


@pytest.mark.parametrize("name", SUITE)
@settings(max_examples=40, deadline=None)
@given(rows=TIED)
def test_order_among_ties_changes_no_metric_by_a_single_bit(name: str, rows: NamedRows) -> None:
    right_first, wrong_first = (sorted(rows, key=lambda row: (-row[0], sign * row[1])) for sign in (-1, 1))
    assert SUITE[name](right_first) == SUITE[name](wrong_first)


@pytest.mark.parametrize("name", [name for name in SUITE if name not in FINITE])
@settings(max_examples=40, deadline=None)
@given(rows=NAMED, copies=st.integers(2, 5))
def test_copies_of_all_rows_change_no_metric(name: str, rows: NamedRows, copies: int) -> None:
    before, after = SUITE[name](rows), SUITE[name](rows * copies)
    tolerance = 1e-3 if name in CORRELATIONS else 1e-12
    assert after == (None if before is None else pytest.approx(before, abs=tolerance))


@pytest.mark.parametrize("name", FINITE)
@settings(max_examples=30, deadline=None)
@given(rows=NAMED)
def test_finite_metrics_settle_as_rows_are_copied(name: str, rows: NamedRows) -> None:
    assert SUITE[name](rows * 800) == pytest.approx(SUITE[name](rows * 400), abs=0.01)


@given(NAMED)
def test_names_of_questions_do_not_matter(rows: NamedRows) -> None:
    renamed = evaluate([c for c, *_ in rows], [z for _, z, *_ in rows], [("other", -q) for *_, q, _ in rows])
    assert renamed["cap_brier"] == cap_brier(rows)
    assert renamed["questions"] == len({q for *_, q, _ in rows})


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


@given(ROWS)
def test_metrics_stay_within_the_bounds_that_intervals_end_at(rows: Rows) -> None:
    for name, value in scores(rows).items():
        low, high = METRICS[name].bounds
        assert value is None or low - 1e-12 <= value <= high + 1e-12, name


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
