"""Held-out halves, recomputed: thresholds, coverage, risk and routing by loops over the rows of the same halves."""

import math
from fractions import Fraction
from statistics import mean, pstdev

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta

from calibsft.decisions import Spread, answered_held_out, certify, route, routed_held_out
from calibsft.decisions.by_question import ByQuestion
from calibsft.errors import InputError

DELTA = 0.05
STARTS = (98, 95, 90, 85, 80, 70, 60, 50, 30, 0)
BOTH = pytest.mark.parametrize("procedure", ["union", "fixed-sequence"])
CHOICES = pytest.mark.parametrize("choice", ["first", "random"])


def reaches(confidence: float | None, threshold: int) -> bool:
    return confidence is not None and Fraction(str(confidence)) >= Fraction(threshold, 100)


def as_hundredths(threshold: float | None) -> int | None:
    return None if threshold is None else round(100 * threshold)


def lowest_by_hand(
    counts: list[tuple[int, int]], budget: float, procedure: str, candidates: int, starts: tuple[int, ...]
) -> int | None:
    """From (bad, of so many) at every threshold."""
    if procedure == "recycled":
        return recycled_by_hand(counts, budget, starts)
    level = DELTA / (candidates if procedure == "union" else len(starts))
    passes = [k < n and beta.ppf(1 - level, k + 1, n - k) <= budget for k, n in counts]
    if procedure == "fixed-sequence":
        passes = [
            any(all(passes[threshold : start + 1]) for start in starts if start >= threshold)
            for threshold in range(101)
        ]
    return passes.index(True) if any(passes) else None


def recycled_by_hand(counts: list[tuple[int, int]], budget: float, starts: tuple[int, ...]) -> int | None:
    """Threshold by threshold from the top: a failure loses the share in hand, and every start brings one of its own."""
    share, lowest = 0.0, None
    walking = False
    for threshold in range(starts[0], -1, -1):
        if threshold in starts:
            share, walking = (share if walking else 0.0) + DELTA / len(starts), True
        k, n = counts[threshold]
        walking = walking and k < n and beta.ppf(1 - share, k + 1, n - k) <= budget
        lowest = threshold if walking else lowest
    return lowest


def certified_by_hand(rows: list[tuple[float | None, bool]], risk: float, procedure: str) -> int | None:
    answered = [[right for stated, right in rows if reaches(stated, t)] for t in range(101)]
    counts = [(rights.count(False), len(rights)) for rights in answered]
    return lowest_by_hand(counts, risk, procedure, 101, STARTS)


def routed_by_hand(
    rows: list[tuple[float | None, bool, bool, float]], epsilon: float, procedure: str
) -> int | None:
    counts = [
        (sum(reaches(stated, t) and not local and strong for stated, local, strong, _ in rows), len(rows))
        for t in range(101)
    ]
    return lowest_by_hand(counts, epsilon, procedure, 102, (100,))


def responses(questions: int, samples: int, seed: int = 0) -> pl.DataFrame:
    """Mostly calibrated responses of a local model, some without a confidence, and a strong model's to the same questions."""
    random = np.random.default_rng(seed)
    n = questions * samples
    stated = random.integers(0, 101, n)
    return pl.DataFrame(
        {
            "question": [f"q{i // samples}" for i in range(n)],
            "confidence": [None if u < 0.1 else c / 100 for u, c in zip(random.random(n), stated, strict=True)],
            "correct": random.random(n) < 0.5 + stated / 200,
            "strong": np.repeat(random.random(questions) < 0.8, samples),
            "tokens": np.repeat(random.integers(1, 99, questions), samples).astype(float),
        }
    ).sample(fraction=1, shuffle=True, seed=seed)  # fmt: skip


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.none() | st.sampled_from([0.0, 0.29, 0.57, 0.9, 1.0]), st.booleans()), min_size=1, max_size=60),
    st.sampled_from([0.15, 0.3, 0.6]),
    st.sampled_from(["union", "fixed-sequence", "recycled"]),
)  # fmt: skip
def test_a_certificate_is_what_loops_over_the_rows_find(
    rows: list[tuple[float | None, bool]], risk: float, procedure: str
) -> None:
    stated, right = map(list, zip(*rows, strict=True))
    found = certify(stated, right, list(range(len(rows))), risk, procedure=procedure)
    lowest = as_hundredths(found.threshold)
    assert lowest == certified_by_hand(rows, risk, procedure)
    answered = [] if lowest is None else [s for s in stated if reaches(s, lowest)]
    assert found.coverage == len(answered) / len(rows)


@BOTH
@CHOICES
def test_held_out_coverage_and_risk_are_counted_on_all_responses_of_the_other_half(
    procedure: str, choice: str
) -> None:
    rows = responses(400, 3)
    columns = rows["confidence"], rows["correct"], rows["question"]
    risks = (0.05, 0.25, 0.5)
    found = answered_held_out(*columns, risks, DELTA, procedure, 4, 7, choice)
    grouped = ByQuestion.of(rows.select("question", "confidence", "correct"), choice, rows["question"])
    thresholds = []
    for half, (chosen, others) in enumerate(grouped.halves(4, 7)):
        for column, risk in enumerate(risks):
            lowest = certified_by_hand(
                list(chosen.select("confidence", "correct").iter_rows()), risk, procedure
            )
            thresholds.append(lowest)
            held = list(others.select("confidence", "correct").iter_rows())
            right = [z for stated, z in held if lowest is not None and reaches(stated, lowest)]
            assert found.coverage[half, column] == len(right) / len(held)
            risk_found = found.risk[half, column]
            assert risk_found == right.count(False) / len(right) if right else math.isnan(risk_found)
    # some abstain and some answer, or the test would show little
    assert None in thresholds and len({*thresholds} - {None}) > 1


@BOTH
@CHOICES
def test_held_out_routing_is_counted_on_all_rows_of_the_other_half(procedure: str, choice: str) -> None:
    rows = responses(300, 2, seed=3)
    names = ["confidence", "correct", "strong", "tokens"]
    columns = rows["confidence"], rows["correct"], rows["strong"], rows["question"]
    found = routed_held_out(*columns, 0.2, DELTA, procedure, rows["tokens"], 3, 1, choice)
    grouped = ByQuestion.of(rows.select("question", *names), choice, rows["question"])
    kept_ever = 0
    for outcome, (chosen, others) in zip(found, grouped.halves(3, 1), strict=True):
        lowest = routed_by_hand(list(chosen.select(names).iter_rows()), 0.2, procedure)
        held = list(others.select(names).iter_rows())
        stays = [lowest is not None and reaches(stated, lowest) for stated, *_ in held]
        given_right = [z if stay else s for stay, (_, z, s, _) in zip(stays, held, strict=True)]
        lost = [stay and s and not z for stay, (_, z, s, _) in zip(stays, held, strict=True)]
        saved = sum(t for stay, (*_, t) in zip(stays, held, strict=True) if stay)
        assert outcome.deferred == pytest.approx(1 - mean(stays))
        assert outcome.accuracy == pytest.approx(mean(given_right))
        assert outcome.gross_loss == pytest.approx(mean(lost))
        assert outcome.net_loss == pytest.approx(mean(s for _, _, s, _ in held) - mean(given_right))
        assert outcome.tokens_saved == pytest.approx(saved / sum(t for *_, t in held))
        kept_ever += any(stays)
    assert kept_ever


@BOTH
def test_a_route_is_what_loops_over_the_rows_find(procedure: str) -> None:
    rows = responses(500, 1, seed=2)
    columns = rows["confidence"], rows["correct"], rows["strong"], rows["question"]
    by_hand = list(rows.select("confidence", "correct", "strong", "tokens").iter_rows())
    found = {
        epsilon: as_hundredths(route(*columns, epsilon, DELTA, procedure).threshold)
        for epsilon in (0.005, 0.05, 0.15)
    }
    assert found == {epsilon: routed_by_hand(by_hand, epsilon, procedure) for epsilon in found}
    assert len(set(found.values())) == 3


def test_repeated_questions_are_refused_where_no_choice_is_made() -> None:
    rows = responses(5, 2)
    with pytest.raises(InputError, match="several responses"):
        answered_held_out(rows["confidence"], rows["correct"], rows["question"], [0.1], per_question=None)
    with pytest.raises(InputError, match="several responses"):
        routed_held_out(
            rows["confidence"], rows["correct"], rows["strong"], rows["question"], 0.1, per_question=None
        )


def test_a_single_question_has_no_halves() -> None:
    alone = [0.9], [True], ["q"]
    assert np.isnan(answered_held_out(*alone, [0.5], halves=2).risk).all()
    assert routed_held_out([0.9], [True], [True], ["q"], 0.5) == []


@pytest.mark.parametrize("risk, delta", [(0, 0.05), (1, 0.05), (math.nan, 0.05), (0.1, 0.0), (0.1, 1.0)])
def test_budgets_outside_their_range_are_refused_here_too(risk: float, delta: float) -> None:
    with pytest.raises(InputError, match="give a number between 0 and 1"):
        answered_held_out([0.9] * 2, [True] * 2, ["a", "b"], [0.5, risk], delta)
    with pytest.raises(InputError, match="give a number between 0 and 1"):
        routed_held_out([0.9] * 2, [True] * 2, [True] * 2, ["a", "b"], risk, delta)


def test_a_spread_is_over_the_halves_that_have_a_value() -> None:
    values = [0.25, None, 0.5, math.nan, 1.0]
    assert Spread.of(values) == Spread(
        pytest.approx(mean([0.25, 0.5, 1])), pytest.approx(pstdev([0.25, 0.5, 1]))
    )
    assert Spread.of([0.5]) == Spread(0.5, 0.0)
    assert Spread.of([None, math.nan]) is Spread.of([]) is None
