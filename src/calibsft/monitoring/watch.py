"""Watches a policy over responses that have labels already, in order of arrival.

The policy's threshold is applied to them as a gateway would. Does not read files and does not look
for repeated questions.
"""

from dataclasses import dataclass

from calibsft.decisions.policy import Policy
from calibsft.decisions.selective import checked_reached
from calibsft.decisions.thresholds import THRESHOLDS
from calibsft.errors import InputError
from calibsft.metrics.evaluate import Column
from calibsft.monitoring.promise import Promise
from calibsft.monitoring.state import State


@dataclass(frozen=True, slots=True)
class Watched:
    """What the labels say of the policy's promise.

    Attributes
    ----------
    responses : how many were given; `state.labels` of them count.
    alarm_index : the index of the response whose label raised the alarm; None if there is none.
    """

    policy: Policy
    responses: int
    state: State
    alarm_index: int | None


def watch(
    confidence: Column, correct: Column, policy: Policy, strong_correct: Column | None = None
) -> Watched:
    """Whether these responses break the promise of `policy`.

    Parameters
    ----------
    confidence : stated confidences in [0, 1], in order of arrival, one response per question; None
        for a response without one to act on.
    correct : whether the local model's responses are right.
    policy : whose promise is watched; its delta is the probability of a false alarm.
    strong_correct : whether the strong model is right; needed for a policy that defers.
    """
    promise = Promise.of(policy)
    reached, right = checked_reached(confidence, correct, correct)
    if strong_correct is None and not promise.abstains:
        raise InputError(
            "a policy that defers is watched with strong_correct; say where the strong model is right"
        )
    strong = None if strong_correct is None else checked_reached(confidence, strong_correct, correct)[1]
    kept = reached >= (THRESHOLDS if policy.hundredths is None else policy.hundredths)
    counted, events = promise.events(kept, right, strong)
    state = promise.state()
    for event in events.tolist():
        state = state.after(event)
    alarm_index = None if state.alarmed_at is None else int(counted[state.alarmed_at - 1])
    return Watched(policy, len(reached), state, alarm_index)
