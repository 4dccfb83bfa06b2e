"""Routing: which events count, how many are allowed, and what a threshold does to the questions."""

import numpy as np
import pytest

from calibsft.decisions import Outcome, route
from calibsft.decisions.routing import Questions, routing_table
from calibsft.errors import InputError

PAPER_QUESTIONS = 2414


def ids(count: int) -> list[str]:
    return [f"q{number}" for number in range(count)]


def with_events(events: int, procedure: str, epsilon: float) -> float | None:
    """The threshold for the paper's number of questions, of which so many lose when kept."""
    local = np.ones(PAPER_QUESTIONS, dtype=bool)
    local[:events] = False
    always = np.ones(PAPER_QUESTIONS, dtype=bool)
    return route(
        [0.9] * PAPER_QUESTIONS, local, always, ids(PAPER_QUESTIONS), epsilon, procedure=procedure
    ).threshold


@pytest.mark.parametrize(
    "procedure, epsilon, most",
    [("union", 0.01, 9), ("union", 0.02, 26), ("fixed-sequence", 0.01, 15), ("fixed-sequence", 0.02, 36)],
)
def test_so_many_events_are_allowed_among_the_papers_questions(
    procedure: str, epsilon: float, most: int
) -> None:
    assert with_events(most, procedure, epsilon) == 0
    # One more, and the questions at 0.90 can no longer be kept: only thresholds that keep nothing pass.
    assert with_events(most + 1, procedure, epsilon) == 0.91


@pytest.mark.parametrize("procedure, tests", [("union", 102), ("fixed-sequence", 1)])
def test_the_bound_pays_for_so_many_tests(procedure: str, tests: int) -> None:
    found = route([0.9] * 50, [1] * 50, [1] * 50, ids(50), 0.1, 0.05, procedure)
    assert found.candidates[90].bound == pytest.approx(1 - (0.05 / tests) ** (1 / 50), rel=1e-9)


def test_only_what_is_kept_and_wrong_and_right_elsewhere_is_an_event() -> None:
    confidence = [0.9, 0.9, 0.9, 0.9, 0.2, 0.2]
    local = [True, True, False, False, False, True]
    strong = [True, False, True, False, True, True]
    found = route(confidence, local, strong, ids(6), 0.99, 0.9, strong_tokens=[1, 2, 3, 4, 10, 20])
    kept = found.candidates[90]
    assert (kept.kept, kept.events, kept.event_rate) == (4, 1, 1 / 6)
    assert (found.candidates[0].kept, found.candidates[0].events) == (6, 2)
    questions = Questions(
        np.array([90, 90, 90, 90, 20, 20]), np.array(local), np.array(strong), np.arange(1.0, 7.0)
    )
    outcome = questions.outcome(90)
    assert (outcome.deferred, outcome.accuracy) == pytest.approx((2 / 6, 4 / 6))
    assert (outcome.gross_loss, outcome.net_loss, outcome.tokens_saved) == pytest.approx(
        (1 / 6, 0.0, 10 / 21)
    )
    nothing = questions.outcome(None)
    assert (nothing.deferred, nothing.accuracy, nothing.gross_loss, nothing.tokens_saved) == (
        1.0,
        4 / 6,
        0.0,
        0.0,
    )


def test_where_nothing_is_certain_everything_is_deferred() -> None:
    found = route([1.0] * 5, [False] * 5, [True] * 5, ids(5), 0.01)
    assert found.threshold is None and found.outcome.deferred == 1.0 and found.outcome.tokens_saved is None


def test_without_a_confidence_a_question_is_deferred_whatever_the_threshold() -> None:
    # Every question without a confidence would be an event if it were kept.
    count = 600
    confidence = [0.0] * count + [None] * count
    local, strong = [True] * count + [False] * count, [True] * (2 * count)
    found = route(confidence, local, strong, ids(2 * count), 0.01, strong_tokens=[1] * count + [3] * count)
    assert found.threshold == 0 and found.outcome == Outcome(0.5, 1.0, 0.0, 0.0, 0.25)
    assert (found.candidates[0].kept, found.candidates[0].events) == (count, 0)


def test_what_the_local_model_gains_is_taken_off_the_net_loss_only() -> None:
    # Of ten kept questions the strong model alone has 3 and the local model alone 4; two are deferred.
    local = [False] * 3 + [True] * 4 + [True] * 3 + [False] * 2
    strong = [True] * 3 + [False] * 4 + [True] * 3 + [True] * 2
    questions = Questions(np.array([50] * 10 + [10] * 2), np.array(local), np.array(strong), None)
    outcome = questions.outcome(50)
    assert outcome == Outcome(2 / 12, 9 / 12, 3 / 12, pytest.approx(8 / 12 - 9 / 12), None)


def test_of_several_rows_of_a_question_one_counts() -> None:
    questions = ["b", "a", "b", "a"]
    kept = [
        route([0.1, 0.2, 0.3, 0.4], [1] * 4, [1] * 4, questions, 0.9, per_question=choice, seed=seed)
        for choice, seed in [("first", 0), ("first", 1), *(("random", seed) for seed in range(20))]
    ]
    assert {found.questions for found in kept} == {2}
    reached = [tuple(found.candidates[t].kept for t in (11, 21, 31)) for found in kept]
    assert reached[:2] == [(1, 0, 0)] * 2
    # b is 0.1 or 0.3, a is 0.2 or 0.4: every combination is drawn
    assert set(reached[2:]) == {(1, 0, 0), (1, 1, 1), (2, 1, 0), (2, 2, 1)}


def test_events_can_only_fall_as_the_threshold_rises() -> None:
    random = np.random.default_rng(0)
    questions = Questions(
        random.integers(0, 101, 500), random.random(500) < 0.5, random.random(500) < 0.8, None
    )
    table = routing_table(questions, 0.05)
    assert (np.diff(table.counts.events) <= 0).all() and (np.diff(table.tested(0.1)[0]) <= 0).all()


@pytest.mark.parametrize(
    "changes, complaint",
    [
        ({"question_id": ["a", "a"]}, "question 'a' has several responses"),
        ({"epsilon": 0}, "epsilon is 0; give a number between 0 and 1"),
        ({"strong_tokens": [1, -2]}, "strong_tokens must be one number per question"),
        ({"strong_correct": [1, 2]}, "correct at index 1 is 2"),
    ],
)
def test_what_cannot_be_routed_is_told(changes: dict[str, object], complaint: str) -> None:
    words = {
        "confidence": [0.5, 0.6],
        "local_correct": [1, 0],
        "strong_correct": [1, 1],
        "question_id": ["a", "b"],
        "epsilon": 0.1,
    }
    with pytest.raises(InputError, match=complaint):
        route(**{**words, **changes})
