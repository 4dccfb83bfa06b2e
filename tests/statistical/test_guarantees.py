"""Guarantees in simulation: wrong at most as often as delta allows, and more often once the correction is taken away.

Every world is a population whose true risk is known at every threshold; a certificate is wrong if it accepts a threshold
whose true risk is above the budget.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import NDArray

from calibsft.decisions import procedures, routing, select
from calibsft.decisions.guarantees import EXPECTATION
from calibsft.decisions.routing import Questions, routing_table
from calibsft.decisions.selective import counted_risks
from calibsft.metrics.table import FloatArray

DELTA = 0.05
POPULATIONS = 2000
# What a count with expectation DELTA * POPULATIONS exceeds once in a thousand times.
ALLOWED = DELTA * POPULATIONS + 3.1 * (DELTA * (1 - DELTA) * POPULATIONS) ** 0.5
HUNDREDTHS = np.arange(101)
EVERYWHERE = np.full(101, 1 / 101)
ALL = pytest.mark.parametrize("procedure", procedures.PROCEDURES)
ROUTED = pytest.mark.parametrize("procedure", routing.PROCEDURES)


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
        lowest = counted_risks(*counted, DELTA, procedure).lowest(BUDGET)
        found += lowest is not None and true_risk[lowest] > BUDGET
    return found


@ALL
@pytest.mark.parametrize("world", WORLDS)
def test_a_certificate_is_wrong_no_more_often_than_delta(world: str, procedure: str) -> None:
    assert violations(WORLDS[world], procedure) <= ALLOWED


def every_one_that_passes_alone(
    p_values: FloatArray, delta: float, family: procedures.Family
) -> procedures.Tested:
    return np.full_like(p_values, delta), p_values <= delta


@ALL
def test_without_its_correction_a_procedure_is_wrong_more_often(
    monkeypatch: pytest.MonkeyPatch, procedure: str
) -> None:
    uncorrected = replace(procedures.PROCEDURES[procedure], test=every_one_that_passes_alone)
    monkeypatch.setitem(procedures.PROCEDURES, procedure, uncorrected)
    world = WORLDS["the same risk everywhere, just above the budget"]
    assert violations(world, procedure) > 2 * DELTA * POPULATIONS


def test_a_start_chosen_on_the_questions_that_test_is_wrong_more_often() -> None:
    """What `split` would do without a split: the whole of delta, from the safest threshold of the same questions."""
    world, found = WORLDS["the same risk everywhere, just above the budget"], 0
    true_risk, random = world.true_risk(), np.random.default_rng(7)
    for _ in range(POPULATIONS):
        reached = random.choice(101, 400, p=world.stated)
        correct = random.random(400) >= world.wrong[reached]
        table = replace(counted_risks(reached, correct, DELTA, procedures.FIXED_SEQUENCE))
        chosen = replace(table, choosing=table.counts)
        lowest = chosen.lowest(BUDGET)
        found += lowest is not None and true_risk[lowest] > BUDGET
    assert found > 2 * DELTA * POPULATIONS


@ALL
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
            counted_risks(reached, correct, DELTA, name).lowest(BUDGET)
            for name in (procedures.UNION, procedures.FIXED_SEQUENCE)
        )
        lower += sequence is not None and (union is None or sequence < union)
        assert union is None or (sequence is not None and sequence <= union + 20)
    assert lower > 100


# How much is answered


def coverages(
    draw: Callable[[np.random.Generator], FloatArray], slope: float, risk: float
) -> dict[str, float]:
    """The mean coverage of each procedure over 400 draws of 2,000 questions.

    The mean error rate of answers with a confidence is its distance from 1, times a slope around the confidences' mean.
    """
    random, found = np.random.default_rng(0), dict.fromkeys(procedures.PROCEDURES, 0.0)
    for number in range(400):
        stated = draw(random).clip(0, 1)
        right = random.random(2000) < (stated.mean() + slope * (stated - stated.mean())).clip(0, 1)
        reached = np.floor(100 * stated).astype(np.int64)
        for name in found:
            table = counted_risks(reached, right, DELTA, name, seed=number)
            lowest = table.lowest(risk)
            found[name] += 0.0 if lowest is None else table.counts.n[lowest] / 2000 / 400
    return found


def test_recycling_answers_more_than_the_fixed_sequence_and_that_more_than_the_union_bound() -> None:
    found = coverages(lambda random: random.beta(1.04, 0.72, 2000), 1.0, 0.10)
    expected = {procedures.UNION: 0.234, procedures.FIXED_SEQUENCE: 0.269, procedures.RECYCLED: 0.289}
    assert {name: found[name] for name in expected} == pytest.approx(expected, abs=0.015)


def test_a_split_answers_most_where_confidences_lie_close_together() -> None:
    found = coverages(lambda random: random.normal(0.65, 0.08, 2000), 1.5, 0.25)
    assert found[procedures.SPLIT] > found[procedures.RECYCLED] + 0.01
    assert found[procedures.RECYCLED] > found[procedures.FIXED_SEQUENCE] > found[procedures.UNION] + 0.02


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


@ROUTED
def test_routing_loses_more_than_it_may_no_more_often_than_delta(procedure: str) -> None:
    found = losses(EVENT_RATE, lambda questions: routing_table(questions, DELTA, procedure).lowest(EPSILON))
    assert found <= ALLOWED


def test_routing_by_the_counted_rate_alone_loses_too_much() -> None:
    def by_the_rate(questions: Questions) -> int | None:
        table = routing_table(questions, DELTA)
        fitting = np.flatnonzero(table.counts.events / table.counts.n <= EPSILON)
        return int(fitting[0]) if len(fitting) else None

    assert losses(EVENT_RATE, by_the_rate) > 4 * DELTA * POPULATIONS


# Guarantees in expectation


def mean_loss(event_rate: FloatArray, choose: Callable[[Questions], int | None], questions: int) -> float:
    """The true loss of the chosen threshold, on average over populations; hundredths are equally frequent."""
    true_loss = (event_rate / 101)[::-1].cumsum()[::-1]
    random, total = np.random.default_rng(6), 0.0
    for _ in range(POPULATIONS):
        reached = random.integers(0, 101, questions)
        lost = random.random(questions) < event_rate[reached]
        lowest = choose(Questions(reached, ~lost, np.ones(questions, dtype=bool), None))
        total += 0.0 if lowest is None else true_loss[lowest]
    return total / POPULATIONS


def conformal(budget: float) -> Callable[[Questions], int | None]:
    return lambda given: routing_table(given, DELTA, guarantee=EXPECTATION).lowest(budget)


@pytest.mark.parametrize("questions", [200, 1000])
def test_conformal_routing_loses_no_more_than_it_may_on_average(questions: int) -> None:
    def sequence(given: Questions) -> int | None:
        return routing_table(given, DELTA, procedures.FIXED_SEQUENCE).lowest(EPSILON)

    loss = mean_loss(EVENT_RATE, conformal(EPSILON), questions)
    assert loss <= EPSILON + 3.1 * (EPSILON / questions / POPULATIONS) ** 0.5
    assert loss > mean_loss(EVENT_RATE, sequence, questions)


def test_without_the_event_that_is_added_routing_loses_too_much_on_average() -> None:
    def by_the_rate(given: Questions) -> int | None:
        counts = routing_table(given, DELTA).counts
        fitting = np.flatnonzero(counts.events / counts.n <= 0.1)
        return int(fitting[0]) if len(fitting) else None

    # With 40 questions one event is much: of five events in them the fifth is one too many.
    half = np.full(101, 0.5)
    noise = 3.1 * (0.1 / 40 / POPULATIONS) ** 0.5
    assert mean_loss(half, conformal(0.1), 40) <= 0.1 + noise
    assert mean_loss(half, by_the_rate, 40) > 0.1 + noise


def test_a_conformal_route_may_keep_so_many_losses_among_the_papers_questions() -> None:
    for events, threshold in ((23, 0), (24, 91)):
        local = np.arange(2414) >= events
        given = Questions(np.full(2414, 90), local, np.ones(2414, dtype=bool), None)
        assert routing_table(given, DELTA, guarantee=EXPECTATION).lowest(0.01) == threshold


SELECTED = {
    "calibrated": lambda stated: stated,
    "the same accuracy everywhere, just below": lambda stated: np.full_like(stated, 0.79),
    "over-confident": lambda stated: stated**3,
    "confident where wrong": lambda stated: 1 - stated,
}


def kept_wrong(
    accuracy: Callable[[FloatArray], FloatArray], choose: Callable[..., NDArray[np.bool_]], labels: int
) -> list[float]:
    """The share of wrong answers among the kept ones, in every population; 0 where nothing is kept."""
    random, found = np.random.default_rng(8), []
    for _ in range(POPULATIONS):
        stated = random.integers(0, 101, labels + 300) / 100
        right = random.random(labels + 300) < accuracy(stated)
        keep = choose(stated[:labels], right[:labels], stated[labels:])
        found.append(float((~right[labels:])[keep].mean()) if keep.any() else 0.0)
    return found


@pytest.mark.parametrize("world", SELECTED)
def test_of_the_selected_answers_no_more_are_wrong_than_allowed_on_average(world: str) -> None:
    def selected(stated: FloatArray, right: NDArray[np.bool_], batch: FloatArray) -> NDArray[np.bool_]:
        return select(stated, right, np.arange(len(stated)), batch, BUDGET).keep

    shares = np.array(kept_wrong(SELECTED[world], selected, labels=200))
    assert shares.mean() <= BUDGET + 3.1 * shares.std() / POPULATIONS**0.5
    if world == "calibrated":  # and it keeps something with 200 labels
        assert (shares > 0).mean() > 0.9


def test_the_lowest_threshold_by_the_counted_rate_is_wrong_too_often() -> None:
    def by_the_rate(stated: FloatArray, right: NDArray[np.bool_], batch: FloatArray) -> NDArray[np.bool_]:
        table = counted_risks((100 * stated).round().astype(np.int64), right, DELTA)
        n, wrong = table.counts.n, table.counts.events
        fitting = np.flatnonzero((wrong + 1) / (n + 1) <= BUDGET)
        return batch >= fitting[0] / 100 if len(fitting) else np.zeros(len(batch), dtype=bool)

    accuracy = SELECTED["the same accuracy everywhere, just below"]
    shares = np.array(kept_wrong(accuracy, by_the_rate, labels=200))
    answered = shares[shares > 0]
    assert answered.mean() > BUDGET and len(answered) > 0.1 * POPULATIONS
