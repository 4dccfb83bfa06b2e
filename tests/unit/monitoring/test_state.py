"""States: what an alarm needs, that it stays, and that it and the lower bound say the same."""

from dataclasses import asdict
from math import log

import numpy as np
import pytest

from calibsft.errors import InputError
from calibsft.monitoring import Monitor, State

EVENTS = np.random.default_rng(4).random(1500) < 0.16


def states(events: np.ndarray, budget: float = 0.1, delta: float = 0.05) -> list[State]:
    monitor = Monitor(budget, delta)
    return [monitor.add(event) for event in events.tolist()]


def test_the_alarm_is_raised_by_the_first_label_at_which_the_e_value_reaches_1_over_delta() -> None:
    found = states(EVENTS)
    reached = [state.log_e_value >= log(20) for state in found]
    first = reached.index(True)
    assert 20 < first < 1000
    assert [state.alarm for state in found] == [False] * first + [True] * (len(found) - first)
    assert {state.alarmed_at for state in found[first:]} == {first + 1}


def test_an_alarm_and_its_lower_bound_outlast_a_million_good_labels() -> None:
    alarmed = states(EVENTS)[-1]
    state = State(**{**asdict(alarmed), "labels": 1_000_000})
    for event in (False, True, False):
        state = state.after(event)
    assert state.e_value < 1e-3 and state.alarm
    assert (state.alarmed_at, state.lower_bound) == (alarmed.alarmed_at, alarmed.lower_bound)


def test_the_alarm_is_there_exactly_while_the_lower_bound_is_above_the_budget() -> None:
    for budget in (0.05, 0.1, 0.14, 0.3):
        found = states(EVENTS, budget)
        assert [state.alarm for state in found] == [state.lower_bound >= budget for state in found]


def test_the_lower_bound_never_falls_and_approaches_the_rate() -> None:
    bounds = [state.lower_bound for state in states(EVENTS)]
    assert bounds == sorted(bounds) and bounds[0] < 0.02
    assert 0.12 < bounds[-1] < EVENTS.mean()


def test_counts_and_rate_are_those_of_the_labels() -> None:
    before = Monitor(0.1).state
    assert (before.rate, before.e_value, before.lower_bound, before.alarm) == (None, 1, 0, False)
    after = states(EVENTS)[-1]
    assert (after.labels, after.events, after.rate) == (1500, EVENTS.sum(), EVENTS.mean())


def test_an_e_value_beyond_all_floats_is_the_largest_one() -> None:
    state = State(0.1, 0.05, labels=10_000, events=9000)
    assert state.log_e_value > 10_000 and state.e_value < float("inf")


@pytest.mark.parametrize("budget, delta", [(0, 0.05), (1, 0.05), (float("nan"), 0.05), (0.1, 0), (0.1, 1.5)])
def test_shares_out_of_range_are_refused(budget: float, delta: float) -> None:
    with pytest.raises(InputError, match="give a number between 0 and 1"):
        Monitor(budget, delta)


@pytest.mark.parametrize("event", ["false", 0, 1, None, 0.5])
def test_what_is_no_boolean_is_no_label(event: object) -> None:
    with pytest.raises(InputError, match="give True for an event"):
        Monitor(0.1).add(event)  # type: ignore[arg-type]


def test_numpy_booleans_are_labels() -> None:
    assert Monitor(0.1).add(np.bool_(True)).events == 1
