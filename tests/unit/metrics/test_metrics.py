"""Metrics against oracles: scikit-learn, exact rationals, the pairwise definition, and published figures."""

import json
import math
import re
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import brier_score_loss, roc_auc_score

from calibsft.errors import InputError
from calibsft.metrics import (
    METRICS,
    ConfidenceTable,
    evaluate,
    expected_calibration_error,
    reliability_bins,
    share_below_half,
)
from calibsft.responses import parse

PUBLISHED = Path(__file__).parents[4] / "shared/data/rollouts"
EDGES = ["0.00", "0.10", "0.20", "0.30", "0.40", "0.50", "0.60", "0.70", "0.80", "0.90", "1.00"]


def random_texts(seed: int, rows: int) -> tuple[list[str], list[int]]:
    rng = np.random.default_rng(seed)
    texts = [f"{value / 100:.2f}" for value in rng.integers(0, 101, rows)]
    return texts, rng.integers(0, 2, rows).tolist()


CASES = {
    "random": random_texts(0, 3000),
    "few rows": random_texts(1, 7),
    "edges": (EDGES * 2, [1] * 11 + [0] * 11),
    "edges, mixed": (
        ["0.10", "0.30", "0.30", "0.60", "0.70", "1.00", "0.29", "0.69"],
        [0, 1, 0, 0, 1, 1, 1, 0],
    ),
    "all ties": (["0.70"] * 9, [1, 0, 0, 1, 1, 0, 1, 1, 1]),
    "all right": (["0.30", "0.70", "1.00"], [1, 1, 1]),
    "all wrong": (["0.30", "0.70", "0.00"], [0, 0, 0]),
    "one row": (["0.60"], [1]),
}


def table_of(texts: list[str], correct: list[int]) -> ConfidenceTable:
    return ConfidenceTable.from_rows(np.array([float(text) for text in texts]), np.array(correct))


def exact_ece(texts: list[str], correct: list[int], right_closed: bool) -> Fraction:
    bins: dict[int, list[Fraction]] = {}
    for text, z in zip(texts, correct, strict=True):
        tenths = Fraction(text) * 10
        number = max(math.ceil(tenths) - 1, 0) if right_closed else min(math.floor(tenths), 9)
        bins.setdefault(number, []).append(Fraction(text) - z)
    return sum((abs(sum(gaps, Fraction(0))) for gaps in bins.values()), Fraction(0)) / len(texts)


@pytest.mark.parametrize("right_closed", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_ece_equals_the_exact_rational_value(case: str, right_closed: bool) -> None:
    found = expected_calibration_error(table_of(*CASES[case]), right_closed=right_closed)
    assert found == pytest.approx(float(exact_ece(*CASES[case], right_closed)), abs=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_brier_and_auroc_equal_scikit_learn(case: str) -> None:
    texts, correct = CASES[case]
    confidence = [float(text) for text in texts]
    found = evaluate(confidence, correct)
    assert found["brier"] == pytest.approx(brier_score_loss(correct, confidence, pos_label=1), abs=1e-12)
    if len(set(correct)) == 1:
        assert found["auroc"] is None
    else:
        assert found["auroc"] == pytest.approx(roc_auc_score(correct, confidence), abs=1e-12)


@pytest.mark.parametrize("case", ["few rows", "edges", "edges, mixed", "all ties"])
def test_auroc_is_the_pairwise_definition(case: str) -> None:
    rows = [(Fraction(text), z) for text, z in zip(*CASES[case], strict=True)]
    pairs = list(product([c for c, z in rows if z], [c for c, z in rows if not z]))
    wins = sum(Fraction(1) if a > b else Fraction(a == b, 2) for a, b in pairs)
    found = evaluate([float(c) for c, _ in rows], [z for _, z in rows])
    assert found["auroc"] == pytest.approx(float(wins / len(pairs)), abs=1e-15)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_decimal_on_an_edge_is_in_the_bin_that_starts_there_in_every_precision(dtype: type) -> None:
    values = np.array([float(text) for text in EDGES], dtype=dtype)
    bins = reliability_bins(ConfidenceTable.from_rows(values, np.ones(11)))
    assert [part.count for part in bins] == [1] * 9 + [2]
    assert [part.confidence for part in bins[:9]] == [float(text) for text in EDGES[:9]]


def test_reliability_bins_report_means_and_leave_empty_bins_undecided() -> None:
    bins = reliability_bins(table_of(["0.10", "0.15", "0.95"], [1, 0, 1]))
    assert [(part.low, part.high) for part in bins] == [(i / 10, (i + 1) / 10) for i in range(10)]
    assert (bins[1].count, bins[1].accuracy) == (2, 0.5)
    assert bins[1].confidence == pytest.approx(0.125)
    assert (bins[0].count, bins[0].confidence, bins[0].accuracy, bins[0].gap) == (0, None, None, 0.0)


def test_a_constant_at_the_accuracy_has_no_ece_and_chance_auroc() -> None:
    found = evaluate([0.5] * 4, [1, 0, 1, 0])
    assert (found["ece"], found["auroc"], found["brier"], found["effective_support"]) == (0, 0.5, 0.25, 1)


def test_diversity_counts_values_and_ignores_correctness() -> None:
    confidence = [0.01, 0.98, 0.02, 0.97] + [0.5] * 4
    found = evaluate(confidence, [0] * 8)
    assert (found["support"], found["top1"], found["top3"]) == (5, 0.5, 0.75)
    assert found["extreme_share"] == 0.25
    assert found["effective_support"] == pytest.approx(2**0.5 * 8**0.5)
    assert evaluate(EDGES_AS_NUMBERS, [1] * 11)["effective_support"] == pytest.approx(11)
    assert share_below_half(table_of(["0.49", "0.50", "0.51", "0.00"], [0, 0, 0, 0])) == 0.5


EDGES_AS_NUMBERS = [float(text) for text in EDGES]


def test_mean_confidence_is_that_of_the_responses() -> None:
    assert evaluate([0.1, 0.2, 0.6], [1, 0, 0])["mean_confidence"] == pytest.approx(0.3)


def test_evaluate_has_the_stable_keys_and_counts_questions() -> None:
    found = evaluate([Fraction(3, 10), Fraction(7, 10)], [False, True], ["a", "a"])
    assert set(found) == {"n", "questions", "ece_convention", *METRICS} and "cap_brier" in METRICS
    assert (found["n"], found["questions"], found["pass@1"]) == (2, 1, 0.5)
    assert found["ece_convention"] == "10 bins, [k/10,(k+1)/10), 1.0 in the last"
    alone = evaluate([0.5], [1])
    assert set(alone) == set(found) - {"questions"} and alone["cap_brier"] is None
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize("wrap", [list, np.array, pl.Series])
def test_lists_arrays_and_series_give_the_same(wrap: Callable[[list[float]], object]) -> None:
    confidence, correct = [0.2, 0.9, 0.9, 0.4], [0, 1, 0, 1]
    assert evaluate(wrap(confidence), wrap(correct)) == evaluate(confidence, np.array(correct, dtype=bool))


@pytest.mark.parametrize(
    "confidence, correct, question_id, complaint",
    [
        ([], [], None, "no responses"),
        ([0.1, 0.2], [1], None, r"confidence has 2 entries and correct 1: index 1"),
        ([0.1], [1], ["a", "b"], r"question_id 2: index 1"),
        ([0.1, 1.01], [1, 0], None, r"confidence at index 1 is 1.01, not a number in \[0, 1\]"),
        ([0.1, -0.5], [1, 0], None, "confidence at index 1 is -0.5"),
        ([0.1, 0.2, math.nan], [1, 0, 1], None, "confidence at index 2 is nan"),
        ([0.1, math.inf], [1, 0], None, "confidence at index 1 is inf"),
        ([0.1, None], [1, 0], None, "confidence at index 1 is None"),
        ([0.1, "1_0"], [1, 0], None, "confidence at index 1 is '1_0', not a number"),
        (np.array(["0.5"]), [1], None, "confidence at index 0"),
        ([0.1, 0.2], [1, 2], None, "correct at index 1 is 2, not 0 or 1"),
        ([0.1, 0.2], [1, 0.5], None, "correct at index 1 is 0.5"),
        ([0.1, 0.2], ["yes", "no"], None, "correct at index 0"),
        ([[0.1], [0.2]], [1, 0], None, "shape"),
        (pl.Series([0.1, None]), [1, 0], None, "confidence at index 1"),
        ([0.1, 0.2], pl.Series([True, None]), None, "correct at index 1"),
    ],
)
def test_bad_input_is_refused_by_index(
    confidence: list[float], correct: list[int], question_id: list[str] | None, complaint: str
) -> None:
    with pytest.raises(InputError, match=complaint):
        evaluate(confidence, correct, question_id)


# Rows of each system whose response has a tag with a plain decimal in [0, 1]; with a tag of anything else (100., prose); and
# without a tag that is opened and closed.
TAGS = {
    "Base": (417, 83, 0),
    "RLVR": (0, 500, 0),
    "RLVR-Classifier": (0, 0, 500),
    "Answer-Prob": (500, 0, 0),
    "RLCR": (493, 7, 0),
}
# One RLCR response opens a second tag inside the first; ours reads the last, 0.01, and the published figures the first, 0.
TAG_IN_TAG = "<confidence>0. </think><confidence> 0.01 </confidence></confidence>"


def stated_confidences(part: pl.DataFrame) -> tuple[list[float], tuple[int, int, int]]:
    """Confidences from the responses' own text, from the file's field only where ours reads none; how many of each kind."""
    confidences, read, unread, untagged = [], 0, 0, 0
    for response, field in part.select("response", "confidence").iter_rows():
        stated = parse(response).confidence
        confidences.append(field if stated is None or response.endswith(TAG_IN_TAG) else stated)
        tagged = re.search("<confidence>.*</confidence>", response, re.DOTALL) is not None
        assert tagged or stated is None
        read, unread, untagged = (
            read + (stated is not None),
            unread + (stated is None and tagged),
            untagged + (not tagged),
        )
    return confidences, (read, unread, untagged)


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published rollouts are not beside this checkout")
@pytest.mark.parametrize("model", TAGS)
def test_published_figures_are_reproduced_from_the_raw_responses(model: str) -> None:
    rows = pl.read_ndjson(PUBLISHED / "math-500.jsonl.gz", infer_schema_length=None)
    published = json.loads((PUBLISHED / "math-500.metrics.json").read_text())
    assert set(published) == set(TAGS)
    part = rows.filter(pl.col("model") == model)
    confidences, kinds = stated_confidences(part)
    assert kinds == TAGS[model]
    found = evaluate(confidences, part["correct"])
    expected = published[model]
    assert {
        "accuracy": found["pass@1"],
        "brier_score": found["brier"],
        "ece": found["ece"],
        "auroc": found["auroc"],
        "confidence level": found["mean_confidence"],
    } == {
        name: pytest.approx(expected[name], abs=1e-9)
        for name in ("accuracy", "brier_score", "ece", "auroc", "confidence level")
    }
    assert sum(kinds) == part.height == 500


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published rollouts are not beside this checkout")
def test_a_confidence_that_ours_reads_is_the_published_one() -> None:
    rows = pl.read_ndjson(PUBLISHED / "math-500.jsonl.gz", infer_schema_length=None)
    read = [
        (parse(text).confidence, field, text)
        for text, field in rows.select("response", "confidence").iter_rows()
    ]
    others = [(ours, text.endswith(TAG_IN_TAG)) for ours, field, text in read if ours not in (None, field)]
    assert others == [(0.01, True)]
