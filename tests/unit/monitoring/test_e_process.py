"""E-values: equal to integrals in high precision, a martingale at the budget; their bounds."""

from math import exp, log

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibsft.monitoring.e_process import concentration, log_e_value, lower_bound, rejects

DELTA = 0.05
RATES = st.floats(0.001, 0.95)
CONCENTRATIONS = st.floats(1, 1000)


@st.composite
def counts(draw: st.DrawFn, most: int = 5000) -> tuple[int, int]:
    labels = draw(st.integers(0, most))
    return labels, draw(st.integers(0, labels))


def integrated(labels: int, events: int, rate: float, c: float) -> float:
    """By definition: the likelihood ratio of every higher rate, averaged over Beta(1, c)."""
    with mpmath.workdps(40):
        low, others = mpmath.mpf(rate), labels - events

        def part(excess: mpmath.mpf) -> mpmath.mpf:
            higher = low + excess * (1 - low)
            ratio = events * mpmath.log(higher / low) + others * mpmath.log(1 - excess)
            return mpmath.exp(ratio) * c * (1 - excess) ** (c - 1)

        share = mpmath.mpf(events) / labels
        best = max(mpmath.mpf(0), (share - low) / (1 - low))
        width = mpmath.sqrt(low * (1 - low) / labels)
        places = sorted({min(mpmath.mpf(1), max(mpmath.mpf(0), best + i * width)) for i in range(-12, 13)})
        return float(mpmath.log(mpmath.quad(part, [*places, 1] if places[-1] < 1 else places)))


@pytest.mark.parametrize(
    "labels, events, rate, c",
    [
        (1, 1, 0.1, 10),
        (1, 0, 0.1, 10),
        (20, 9, 0.1, 10),
        (300, 30, 0.1, 10),
        (300, 2, 0.1, 10),
        (300, 200, 0.1, 1),
        (300, 14, 0.01, 100),
        (300, 14, 0.04, 100),
        (5000, 620, 0.1, 10),
        (10**6, 99_000, 0.1, 10),
        (10**6, 101_500, 0.1, 10),
        (10**7, 999_000, 0.1, 10),
        (10**7, 1_000_001, 0.1, 10),
        (10**7, 1_004_000, 0.1, 10),
        (10**7, 4_000_000, 0.1, 10),
    ],
)
def test_an_e_value_is_the_integral_that_defines_it_up_to_ten_million_labels(
    labels: int, events: int, rate: float, c: float
) -> None:
    within = 1e-11 if labels < 10**4 else 1e-6  # logarithms of counts cancel
    assert log_e_value(labels, events, rate, c) == pytest.approx(
        integrated(labels, events, rate, c), rel=1e-12, abs=within
    )


def test_far_below_the_budget_an_e_value_is_tiny_and_exact() -> None:
    # No event: the mean of u^n with density c·u^(c−1) is c / (n + c).
    assert log_e_value(10**7, 0, 0.1, 10) == pytest.approx(log(10 / (10**7 + 10)), abs=1e-12)
    # Of 10 million labels, one: the tail of a beta density that no float can hold.
    once = log_e_value(10**7, 1, 0.1, 10)
    assert once == pytest.approx(log(10 / (10**7 + 9) * (1 + 9 / (10**7 + 10))), abs=1e-12)


@given(counts(), RATES, CONCENTRATIONS)
def test_at_the_rate_itself_the_expected_next_e_value_is_the_present_one(
    both: tuple[int, int], rate: float, c: float
) -> None:
    labels, events = both
    now = log_e_value(labels, events, rate, c)
    event, none = (exp(log_e_value(labels + 1, events + x, rate, c) - now) for x in (1, 0))
    assert rate * event + (1 - rate) * none == pytest.approx(1, abs=1e-9)
    # So below the rate it is expected to fall.
    assert event >= 1 >= none


def test_before_the_first_label_the_e_value_is_1() -> None:
    assert log_e_value(0, 0, 0.1, 10) == 0


@given(counts(), RATES, RATES, CONCENTRATIONS)
def test_a_higher_rate_is_never_rejected_more(
    both: tuple[int, int], one: float, other: float, c: float
) -> None:
    low, high = sorted((one, other))
    assert log_e_value(*both, high, c) <= log_e_value(*both, low, c) + 1e-9


@given(counts(), RATES, CONCENTRATIONS)
def test_a_rate_is_rejected_exactly_where_its_e_value_reaches_1_over_delta(
    both: tuple[int, int], rate: float, c: float
) -> None:
    assert rejects(*both, rate, DELTA, c) == (log_e_value(*both, rate, c) >= -log(DELTA))


@given(counts(), CONCENTRATIONS)
def test_the_lower_bound_is_the_largest_rate_that_is_rejected(both: tuple[int, int], c: float) -> None:
    labels, events = both
    bound = lower_bound(labels, events, DELTA, c)
    if events == 0:
        assert bound == 0
        return
    assert 0 < bound < events / labels
    assert log_e_value(labels, events, bound, c) == pytest.approx(-log(DELTA), abs=1e-8)
    assert rejects(labels, events, bound * 0.999, DELTA, c)
    assert not rejects(labels, events, bound * 1.001, DELTA, c)


def test_an_earlier_lower_bound_stays_where_the_counts_say_less() -> None:
    alone = lower_bound(100, 20, DELTA, 10)
    assert lower_bound(100, 20, DELTA, 10, known=0.01) == pytest.approx(alone, rel=1e-9)
    assert lower_bound(100, 20, DELTA, 10, known=0.15) == 0.15


def test_the_mixture_is_about_twice_the_budget_on_average() -> None:
    for budget in (0.001, 0.01, 0.1):
        c = concentration(budget)
        mean = budget + (1 - budget) / (c + 1)
        assert mean == pytest.approx(2 * budget, rel=0.1)


@pytest.mark.parametrize("budget", [1e-320, 1e-12, 1 - 1e-12])
def test_odd_budgets_have_e_values_too(budget: float) -> None:
    c = concentration(budget)
    for labels, events in ((0, 0), (3, 0), (3, 3), (10**6, 1), (10**6, 10**6)):
        assert log_e_value(labels, events, max(budget, 1e-300), c) > -1000
        assert 0 <= lower_bound(labels, events, DELTA, c) <= (events / labels if labels else 0)
