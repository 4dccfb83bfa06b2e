"""Guarantees in simulation: wrong at most as often as delta allows, and more often once the correction is taken away.

Every world is a population whose true risk is known at every threshold; a certificate is wrong if it accepts a threshold
whose true risk is above the budget.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from calibsft.decisions import procedures
from calibsft.decisions.routing import Questions, RoutingTable
from calibsft.decisions.selective import RiskTable

DELTA = 0.05
POPULATIONS = 2000
# What a count with expectation DELTA * POPULATIONS exceeds once in a thousand times.
ALLOWED = DELTA * POPULATIONS + 3.1 * (DELTA * (1 - DELTA) * POPULATIONS) ** 0.5
HUNDREDTHS = np.arange(101)
EVERYWHERE = np.full(101, 1 / 101)
BOTH = pytest.mark.parametrize("procedure", procedures.PROCEDURES)


@dataclass(frozen=True)
class World:
    """How often each hundredth is stated, and how often it is then wrong."""

    stated: NDArray[np.float64]
    wrong: NDArray[np.float64]

    def true_risk(self) -> NDArray[np.float64]:
        stated = self.stated[::-1].cumsum()[::-1]
        errors = (self.stated * self.wrong)[::-1].cumsum()[::-1]
        return np.divide(errors, stated, out=np.zeros(101), where=stated > 0)


def few_values(wrong: dict[int, float]) -> World:
    stated, risks = np.zeros(101), np.zeros(101)
    for value, risk in wrong.items():
        stated[value], risks[value] = 1 / len(wrong), risk
    return World(stated, risks)


BUDGET = 0.2
WORLDS = {
    "the same risk everywhere, just above the budget": World(EVERYWHERE, np.full(101, 0.201)),
    "a sawtooth around the budget": World(EVERYWHERE, np.where(HUNDREDTHS // 5 % 2 == 0, 0.27, 0.135)),
    "calibrated": World(EVERYWHERE, 1 - HUNDREDTHS / 100),
    "few values": few_values({98: 0.205, 90: 0.2, 70: 0.205, 50: 0.202, 20: 0.25}),
}


def violations(world: World, procedure: str, questions: int = 400, responses: int = 1) -> int:
    """In how many populations the lowest certified threshold has a true risk above the budget.

    All responses to a question are alike, and counted as if they were not.
    """
    true_risk, random, found = world.true_risk(), np.random.default_rng(7), 0
    for _ in range(POPULATIONS):
        reached = random.choice(101, questions, p=world.stated)
        correct = random.random(questions) >= world.wrong[reached]
        counted = reached.repeat(responses), correct.repeat(responses)
        lowest = RiskTable.count(*counted, DELTA, procedure).lowest(BUDGET)
        found += lowest is not None and true_risk[lowest] > BUDGET
    return found


@BOTH
@pytest.mark.parametrize("world", WORLDS)
def test_a_certificate_is_wrong_no_more_often_than_delta(world: str, procedure: str) -> None:
    assert violations(WORLDS[world], procedure) <= ALLOWED


def without_correction(procedure: str, delta: float, candidates: int, starts: object) -> float:
    return delta


def every_passing_one(passes: NDArray[np.bool_], procedure: str, starts: object) -> NDArray[np.bool_]:
    return passes


@BOTH
def test_without_its_correction_a_procedure_is_wrong_more_often(
    monkeypatch: pytest.MonkeyPatch, procedure: str
) -> None:
    monkeypatch.setattr(procedures, "level", without_correction)
    monkeypatch.setattr(procedures, "accepted", every_passing_one)
    world = WORLDS["the same risk everywhere, just above the budget"]
    assert violations(world, procedure) > 2 * DELTA * POPULATIONS


@BOTH
@pytest.mark.parametrize("responses, share", [(4, 0.2), (32, 0.7)])
def test_responses_that_err_together_break_the_guarantee(
    procedure: str, responses: int, share: float
) -> None:
    world = WORLDS["the same risk everywhere, just above the budget"]
    assert violations(world, procedure, responses=responses) > share * POPULATIONS


def test_a_fixed_sequence_certifies_more_than_the_union_bound() -> None:
    random, lower = np.random.default_rng(3), 0
    for _ in range(200):
        reached = random.integers(0, 101, 400)
        correct = random.random(400) < 0.6 + 0.4 * reached / 100
        union, sequence = (
            RiskTable.count(reached, correct, DELTA, name).lowest(BUDGET) for name in procedures.PROCEDURES
        )
        lower += sequence is not None and (union is None or sequence < union)
        assert union is None or (sequence is not None and sequence <= union + 20)
    assert lower > 100


# Routing

EPSILON = 0.02


def losses(
    event_rate: NDArray[np.float64], choose: Callable[[Questions], int | None], questions: int = 1000
) -> int:
    """In how many populations the chosen threshold loses more than EPSILON; hundredths are equally frequent."""
    true_loss = (event_rate / 101)[::-1].cumsum()[::-1]
    random, found = np.random.default_rng(5), 0
    for _ in range(POPULATIONS):
        reached = random.integers(0, 101, questions)
        lost = random.random(questions) < event_rate[reached]
        lowest = choose(Questions(reached, ~lost, np.ones(questions, dtype=bool), None))
        found += lowest is not None and true_loss[lowest] > EPSILON
    return found


# The loss crosses the budget slowly, so that a wrong threshold is close at hand.
EVENT_RATE = np.full(101, 0.0205 * 101 / 60) * (HUNDREDTHS >= 41) + 0.001 * (HUNDREDTHS < 41)


@BOTH
def test_routing_loses_more_than_it_may_no_more_often_than_delta(procedure: str) -> None:
    found = losses(
        EVENT_RATE, lambda questions: RoutingTable.count(questions, DELTA, procedure).lowest(EPSILON)
    )
    assert found <= ALLOWED


def test_routing_by_the_counted_rate_alone_loses_too_much() -> None:
    def by_the_rate(questions: Questions) -> int | None:
        table = RoutingTable.count(questions, DELTA)
        fitting = np.flatnonzero(table.events / table.questions <= EPSILON)
        return int(fitting[0]) if len(fitting) else None

    assert losses(EVENT_RATE, by_the_rate) > 4 * DELTA * POPULATIONS
