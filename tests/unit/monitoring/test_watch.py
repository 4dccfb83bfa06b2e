"""Watching a policy over labelled responses: the events of calibration, the alarm's place."""

from typing import Any

import numpy as np
import pytest

from calibsft.decisions import certify, route
from calibsft.decisions.policy import Policy, abstaining_policy, deferring_policy
from calibsft.errors import InputError
from calibsft.monitoring import Feedback, Monitor, Promise, Reason, Refused, watch

RANDOM = np.random.default_rng(0)
STATED = [None if number % 10 == 0 else value for number, value in enumerate(RANDOM.random(2000).round(2))]
LOCAL = RANDOM.random(2000) < np.array([stated or 0 for stated in STATED])
STRONG = RANDOM.random(2000) < 0.9
IDS = range(2000)


def abstaining(risk: float = 0.2, **known: Any) -> Policy:
    found = certify(STATED, LOCAL, IDS, risk, procedure="fixed-sequence")
    return abstaining_policy(found, data_hash="abc", **known)


def deferring(epsilon: float = 0.1) -> Policy:
    found = route(STATED, LOCAL, STRONG, IDS, epsilon, procedure="fixed-sequence")
    return deferring_policy(found, data_hash="abc")


def test_the_labels_of_a_policy_that_abstains_are_its_answers_and_its_events_their_errors() -> None:
    policy = abstaining()
    certificate = certify(STATED, LOCAL, IDS, 0.2, procedure="fixed-sequence")
    assert certificate.chosen is not None and certificate.chosen.errors > 0
    found = watch(STATED, LOCAL, policy)
    assert (found.responses, found.policy) == (2000, policy)
    assert (found.state.budget, found.state.delta) == (0.2, 0.05)
    assert (found.state.labels, found.state.events) == (
        certificate.chosen.accepted,
        certificate.chosen.errors,
    )


def test_the_labels_of_a_policy_that_defers_are_all_questions_and_its_events_their_losses() -> None:
    policy = deferring()
    found = watch(STATED, LOCAL, policy, STRONG)
    tested = route(STATED, LOCAL, STRONG, IDS, 0.1, procedure="fixed-sequence")
    assert tested.threshold is not None
    chosen = tested.candidates[round(100 * tested.threshold)]
    assert (found.state.labels, found.state.events) == (2000, chosen.events) and chosen.events > 0


def test_the_alarm_stands_at_the_response_whose_label_raised_it() -> None:
    policy = abstaining()
    wrong = np.random.default_rng(1).random(2000) < 0.4
    found = watch(STATED, ~wrong, policy)
    assert found.alarm_index is not None and found.state.alarm
    assert not watch(STATED[: found.alarm_index], ~wrong[: found.alarm_index], policy).state.alarm
    upto = watch(STATED[: found.alarm_index + 1], ~wrong[: found.alarm_index + 1], policy)
    assert upto.alarm_index == found.alarm_index
    assert upto.state.labels == found.state.alarmed_at


def test_a_policy_that_keeps_its_promise_raises_no_alarm() -> None:
    assert watch(STATED, LOCAL, abstaining()).alarm_index is None
    assert watch(STATED, LOCAL, deferring(), STRONG).alarm_index is None


def test_where_nothing_is_certified_nothing_is_answered_and_nothing_lost() -> None:
    nothing = abstaining(risk=0.001)
    assert nothing.threshold is None
    assert watch(STATED, LOCAL, nothing).state.labels == 0
    everything = deferring(epsilon=0.0001)
    lost = watch([1.0] * 5, [False] * 5, everything, [True] * 5)
    assert everything.threshold is None
    assert (lost.state.labels, lost.state.events) == (5, 0)


def test_a_policy_that_defers_needs_the_strong_model() -> None:
    with pytest.raises(InputError, match="watched with strong_correct; say where"):
        watch(STATED, LOCAL, deferring())


def test_values_out_of_range_are_refused_by_their_index() -> None:
    with pytest.raises(InputError, match=r"confidence at index 1 is 1\.5"):
        watch([0.5, 1.5], [True, True], abstaining())
    with pytest.raises(InputError, match="index 1 has no partner"):
        watch([0.5, 0.5], [True], abstaining())


def test_one_label_at_a_time_says_the_same_as_all_at_once() -> None:
    for policy, strong in ((abstaining(), None), (deferring(), STRONG)):
        promise, monitor = Promise.of(policy), Monitor(Promise.of(policy).budget)
        for i, stated in enumerate(STATED):
            answered = stated is not None and round(100 * stated) >= (policy.hundredths or 0)
            label = Feedback(id="r", correct=bool(LOCAL[i]), strong_correct=bool(STRONG[i]))
            if answered or not promise.abstains:
                monitor.add(promise.event(answered, label))
        assert monitor.state == watch(STATED, LOCAL, policy, strong).state


# Single labels


def event(policy: Policy, answered: bool, correct: bool, strong: bool | None = None) -> bool:
    return Promise.of(policy).event(answered, Feedback(id="r", correct=correct, strong_correct=strong))


def refused(policy: Policy, answered: bool, correct: bool) -> Refused:
    with pytest.raises(Refused) as error:
        event(policy, answered, correct)
    assert str(error.value).startswith("feedback: response 'r' was ")
    return error.value


def test_of_a_policy_that_abstains_answers_count_and_nothing_else() -> None:
    policy = abstaining()
    assert [event(policy, True, correct) for correct in (True, False)] == [False, True]
    assert [event(policy, True, False, strong) for strong in (True, False)] == [True, True]
    assert refused(policy, False, False).reason is Reason.NOT_ANSWERED


def test_of_a_policy_that_defers_only_kept_questions_that_the_strong_model_gets_right_are_lost() -> None:
    policy = deferring()
    assert [event(policy, True, False, strong) for strong in (True, False)] == [True, False]
    assert not event(policy, True, True) and not event(policy, True, True, True)
    assert not event(policy, False, False, True) and not event(policy, False, False)
    missing = refused(policy, True, False)
    assert missing.reason is Reason.NEEDS_STRONG_CORRECT and "strong_correct is missing" in str(missing)


def test_an_average_promise_is_watched_with_a_delta_of_its_own() -> None:
    found = route([0.9] * 200, [True] * 200, [True] * 200, range(200), 0.1, guarantee="expectation")
    policy = deferring_policy(found, data_hash="abc")
    watched = watch([0.9] * 50, [False] * 50, policy, [True] * 50)
    assert (policy.delta, watched.state.delta, watched.state.budget) == (None, 0.05, 0.1)
    assert watched.alarm_index is not None and watched.alarm_index < 10
