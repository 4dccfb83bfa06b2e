"""One decision: read a local response and apply the policy to it.

A stated confidence counts only if the layout around it is right (`Parsed.actionable`): the same parser and rule as in
calibration. An unreadable confidence is not guessed. Does not ask any server.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from calibsft.decisions.policy import ABSTAIN, WARN, Policy
from calibsft.decisions.thresholds import NOT_CONFIDENT, hundredths
from calibsft.responses.formats import Format
from calibsft.responses.parse import Reason, parse


class Outcome(StrEnum):
    """What a client gets."""

    ANSWERED = "answered"
    ABSTAINED = "abstained"
    DEFERRED = "deferred"


class Cause(StrEnum):
    """Why a client gets it."""

    CONFIDENT = "confident"
    NOT_CONFIDENT = "not_confident"
    MALFORMED = "malformed"  # the response has no confidence to act on
    LOCAL_FAILED = "local_failed"  # there is no response
    ALARM = "alarm"  # labels have shown that the policy's promise is broken


@dataclass(frozen=True, slots=True)
class Reading:
    """What a local response says, or why it has no confidence to act on."""

    answer: str | None = None
    reasoning: str | None = None
    confidence: float | None = None
    malformed: Reason | None = None

    @property
    def reached(self) -> int:
        """The highest threshold that the confidence reaches, as in calibration."""
        if self.confidence is None:
            return NOT_CONFIDENT
        return int(hundredths(np.array([self.confidence]))[0])


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision about one question, as clients see it; `id` is what its label is sent with."""

    outcome: Outcome
    cause: Cause
    confidence: float | None
    threshold: float | None
    guarantee: str
    policy: str
    id: str

    def extension(self) -> dict[str, Any]:
        """The field `calibsft` of a completion."""
        return {
            "decision": self.outcome.value,
            "reason": self.cause.value,
            "confidence": self.confidence,
            "threshold": self.threshold,
            "guarantee": self.guarantee,
            "policy": self.policy,
            "id": self.id,
        }

    def headers(self) -> dict[str, str]:
        """The same for clients that do not see extra fields. Contains no text of a model."""
        fields = self.extension()
        return {f"x-calibsft-{name}": str(value) for name, value in fields.items() if value is not None}


def read_response(text: str, finished: bool, confidence_format: Format) -> Reading:
    """Read a response; the reading has only the reason if there is no confidence to act on."""
    parsed = parse(text, confidence_format, finished=finished)
    if parsed.actionable is None:
        return Reading(malformed=parsed.reason)
    assert parsed.answer is not None
    return Reading(parsed.answer.strip(), (parsed.think or "").strip(), parsed.confidence)


def decide(policy: Policy, policy_id: str, reading: Reading | None, request_id: str) -> Decision:
    """Apply the policy to a reading; None means that there is no response."""
    outcome, cause = _judged(policy, reading)
    confidence = None if reading is None else reading.confidence
    return Decision(outcome, cause, confidence, policy.threshold, policy.guarantee, policy_id, request_id)


def alarmed(policy: Policy, policy_id: str, request_id: str) -> Decision | None:
    """What the policy does with every question while there is an alarm; None if it goes on as before."""
    if policy.on_alarm == WARN:
        return None
    outcome = Outcome.ABSTAINED if policy.on_alarm == ABSTAIN else Outcome.DEFERRED
    return Decision(outcome, Cause.ALARM, None, policy.threshold, policy.guarantee, policy_id, request_id)


def _judged(policy: Policy, reading: Reading | None) -> tuple[Outcome, Cause]:
    if reading is None:
        return Outcome.DEFERRED, Cause.LOCAL_FAILED
    if policy.hundredths is not None and reading.reached >= policy.hundredths:
        return Outcome.ANSWERED, Cause.CONFIDENT
    outcome = Outcome.ABSTAINED if policy.otherwise == ABSTAIN else Outcome.DEFERRED
    return outcome, Cause.MALFORMED if reading.confidence is None else Cause.NOT_CONFIDENT
