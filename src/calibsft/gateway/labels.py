"""Labels of the gateway's own responses: what was answered is remembered, and labels watch the policy's promise.

Turns reasons not to count a label into errors of the API. The policy says what an alarm changes, and the gateway does
it. Keeps ids and labels, no text.
"""

import asyncio
import logging
from typing import Any

from calibsft.decisions.policy import Policy
from calibsft.errors import InputError
from calibsft.gateway.failures import Refusal
from calibsft.gateway.meters import Meters
from calibsft.gateway.strict_json import read_json
from calibsft.monitoring import FeedbackStore, Reason, Refused, State, read_feedback

log = logging.getLogger("calibsft.gateway")
STATUSES = {
    Reason.UNKNOWN_ID: 404,
    Reason.ALREADY_LABELLED: 409,
    Reason.NOT_ANSWERED: 409,
    Reason.NEEDS_STRONG_CORRECT: 422,
}


class Labels:
    """The watch over the promise of one policy."""

    def __init__(self, store: FeedbackStore, policy: Policy, meters: Meters) -> None:
        self._store, self._policy, self._meters = store, policy, meters
        self._id = policy.id
        self.state = store.state
        self._show()
        if self.alarm:
            self._warn()

    def close(self) -> None:
        self._store.close()

    @property
    def alarm(self) -> bool:
        return self.state.alarm

    async def remember(self, request_id: str, answered: bool) -> None:
        """Keep a response for its label. A full disk must not cost the client the answer."""
        try:
            # The disk, or another process with the same file, may take its time; other requests must not wait.
            state = await asyncio.to_thread(self._store.remember, request_id, answered)
        except InputError as error:
            self._meters.unremembered.inc()
            log.error("a response cannot be labelled later: %s", error)
        else:
            self._known(state)

    async def count(self, body: bytes) -> dict[str, Any]:
        """Count the label in a request's body, and return what is known then."""
        try:
            feedback = read_feedback(_value(body))
        except InputError as error:
            raise self._refusal(400, str(error), "invalid_request") from None
        try:
            policy, state = await asyncio.to_thread(self._store.label, feedback)
        except Refused as refused:
            raise self._refusal(STATUSES[refused.reason], str(refused), refused.reason.value) from None
        except InputError as error:
            log.error("a label was not kept: %s", error)
            raise self._refusal(
                503, "the label cannot be kept now; send it again later", "unavailable"
            ) from None
        self._meters.feedback.labels("counted").inc()
        if policy == self._id:
            self._known(state)
        return {"object": "calibsft.feedback", "id": feedback.id, "policy": policy, **summary(state)}

    def _refusal(self, status: int, message: str, code: str) -> Refusal:
        self._meters.feedback.labels(code).inc()
        return Refusal(status, message, code)

    def _known(self, state: State) -> None:
        """Show a state, and log the first alarm."""
        # The file is read in threads, which may finish in another order.
        if state.labels <= self.state.labels:
            return
        before, self.state = self.state, state
        self._show()
        if self.alarm and not before.alarm:
            self._warn()

    def _warn(self) -> None:
        log.warning(
            "ALARM at label %d: more is %s than the policy promises, at least %.1f %%; on an alarm it says: %s",
            self.state.alarmed_at,
            "wrong" if self._policy.risk is not None else "lost",
            100 * self.state.lower_bound,
            self._policy.on_alarm,
        )

    def _show(self) -> None:
        state = self.state
        self._meters.labels.set(state.labels)
        self._meters.label_events.set(state.events)
        self._meters.lower_bound.set(state.lower_bound)
        self._meters.e_value.set(state.e_value)
        self._meters.alarm.set(state.alarm)


def summary(state: State) -> dict[str, Any]:
    """What is known of the promise, for clients and monitors."""
    return {
        "labels": state.labels,
        "events": state.events,
        "lower_bound": state.lower_bound,
        "e_value": state.e_value,
        "alarm": state.alarm,
    }


def _value(body: bytes) -> Any:
    try:
        return read_json(body)
    except ValueError:
        raise InputError("feedback: the body is not JSON; send an object with id and correct") from None
