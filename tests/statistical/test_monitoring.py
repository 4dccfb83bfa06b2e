"""The watch in simulation: false alarms are as rare as delta says, and true ones come soon.

An e-value depends on two counts, so the fewest events that raise an alarm are counted once for
every number of labels. Then thousands of populations cost only their draws, and the exact
probability of an alarm follows by recursion.
"""

from collections.abc import Callable, Iterator
from math import log

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from calibsft.monitoring import Monitor
from calibsft.monitoring.e_process import concentration, rejects

DELTA = 0.05
POPULATIONS = 2000
# What a count with expectation DELTA * POPULATIONS exceeds once in a thousand times.
ALLOWED = DELTA * POPULATIONS + 3.1 * (DELTA * (1 - DELTA) * POPULATIONS) ** 0.5
HORIZON = 10_000
BATCH = 200

Fewest = NDArray[np.int64]


def fewest_events(alarms: Callable[[int, int], bool], horizon: int) -> Fewest:
    """The fewest events that raise an alarm after 1, 2, … labels; more labels never need fewer."""
    found, fewest = np.empty(horizon, dtype=np.int64), 0
    for labels in range(1, horizon + 1):
        while fewest <= labels and not alarms(labels, fewest):
            fewest += 1
        found[labels - 1] = fewest
    return found


def watched(rate: float, budget: float, horizon: int = HORIZON) -> Fewest:
    """For an alarm against `rate` of a watch over `budget`."""
    c = concentration(budget)
    return fewest_events(lambda labels, events: rejects(labels, events, rate, DELTA, c), horizon)


def first_alarms(rate: float, fewest: Fewest, seed: int = 5) -> NDArray[np.int64]:
    """The label that raises the alarm in each population; 0 if none does."""
    random = np.random.default_rng(seed)

    def batches() -> Iterator[NDArray[np.int64]]:
        for _ in range(POPULATIONS // BATCH):
            events = (random.random((BATCH, len(fewest))) < rate).cumsum(axis=1)
            alarms = events >= fewest
            yield np.where(alarms.any(axis=1), alarms.argmax(axis=1) + 1, 0)

    return np.concatenate(list(batches()))


def exact_probability(rate: float, fewest: Fewest) -> float:
    """The probability of an alarm within so many labels: the mass that crosses the line."""
    mass, crossed = np.zeros(int(fewest.max()) + 2), 0.0
    mass[0] = 1
    for line in fewest:
        mass[1:] = mass[1:] * (1 - rate) + mass[:-1] * rate
        mass[0] *= 1 - rate
        crossed += mass[line:].sum()
        mass[line:] = 0
    return crossed


def test_the_fewest_events_are_those_that_alarm_a_monitor() -> None:
    fewest, random = watched(0.1, 0.1, 2000), np.random.default_rng(0)
    for rate in (0.12, 0.15, 0.3):
        events = random.random(2000) < rate
        monitor = Monitor(0.1, DELTA)
        for event in events.tolist():
            monitor.add(event)
        crossed = events.cumsum() >= fewest
        assert monitor.state.alarmed_at == (int(crossed.argmax()) + 1 if crossed.any() else None)


@pytest.mark.parametrize("budget", [0.01, 0.1, 0.3])
@pytest.mark.parametrize("share", [1, 0.8])
def test_false_alarms_are_no_more_frequent_than_delta(budget: float, share: float) -> None:
    alarms = first_alarms(share * budget, watched(budget, budget))
    assert (alarms > 0).sum() <= ALLOWED


@pytest.mark.parametrize("budget", [0.02, 0.1, 0.45])
def test_the_exact_probability_of_a_false_alarm_is_below_delta(budget: float) -> None:
    fewest = watched(budget, budget, 5000)
    at_the_budget, below = (exact_probability(share * budget, fewest) for share in (1, 0.8))
    assert 0.005 < at_the_budget <= DELTA, "safe, and of some use"
    assert below < at_the_budget


def test_a_test_for_a_fixed_number_of_labels_peeked_at_every_label_is_wrong_far_more_often() -> None:
    labels = np.arange(1, HORIZON + 1)
    # The fewest events that the exact binomial test rejects at each number of labels.
    fewest = binom.isf(DELTA, labels, 0.1).astype(np.int64) + 1
    assert (binom.sf(fewest - 1, labels, 0.1) <= DELTA).all()
    assert (first_alarms(0.1, fewest) > 0).sum() > 5 * DELTA * POPULATIONS


@pytest.mark.parametrize("rate, budget", [(0.1, 0.1), (0.05, 0.1), (0.25, 0.1), (0.02, 0.01)])
def test_the_lower_bound_is_ever_above_the_rate_no_more_often_than_delta(rate: float, budget: float) -> None:
    # It is above the rate exactly if that rate is rejected.
    assert (first_alarms(rate, watched(rate, budget)) > 0).sum() <= ALLOWED


@pytest.mark.parametrize("rate, budget", [(0.15, 0.1), (0.2, 0.1), (0.3, 0.1), (0.02, 0.01), (0.6, 0.3)])
def test_a_true_alarm_takes_about_as_many_labels_as_its_information_allows(
    rate: float, budget: float
) -> None:
    alarms = first_alarms(rate, watched(budget, budget))
    # What a label tells of the two rates; a test that knew the true one would need so many.
    told = rate * log(rate / budget) + (1 - rate) * log((1 - rate) / (1 - budget))
    needed = log(1 / DELTA) / told
    assert (alarms > 0).all()
    assert 0.5 * needed < np.median(alarms) < 2 * needed


def test_the_mixture_needs_fewer_labels_than_a_uniform_one() -> None:
    uniform = fewest_events(lambda labels, events: rejects(labels, events, 0.01, DELTA, 1), HORIZON)
    ours, theirs = (np.median(first_alarms(0.02, fewest)) for fewest in (watched(0.01, 0.01), uniform))
    assert ours < 0.7 * theirs
