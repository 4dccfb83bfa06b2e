"""What a policy promises: which labels count, and which of them are events against it.

A policy that abstains promises that few of its answers are wrong: answered responses count, wrong
ones are events. One that defers promises that few questions are lost by keeping them: all questions
count, and those are events that were kept and that only the strong model gets right. The same
events as in calibration (`decisions`). Does not count them.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from calibsft.decisions.policy import ABSTAIN, Policy
from calibsft.decisions.selective import DELTA
from calibsft.files.cells import shown
from calibsft.metrics.table import IntArray
from calibsft.monitoring.feedback import Feedback, Reason, Refused
from calibsft.monitoring.state import State

Truths = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Promise:
    """At most the share `budget` of what counts is an event.

    Attributes
    ----------
    otherwise : what the policy does below its threshold: abstain, or defer.
    delta : the probability of a false alarm: the policy's own, or 0.05 if it has none.
    """

    otherwise: str
    budget: float
    delta: float

    @classmethod
    def of(cls, policy: Policy) -> Self:
        # A promise in expectation has no delta of its own.
        return cls(policy.otherwise, policy.budget, DELTA if policy.delta is None else policy.delta)

    @property
    def abstains(self) -> bool:
        return self.otherwise == ABSTAIN

    def state(self) -> State:
        """What is known before the first label."""
        return State(self.budget, self.delta)

    def event(self, answered: bool, feedback: Feedback) -> bool:
        """Whether a label is an event; `answered`: its response is the local model's own answer."""
        if not answered and self.abstains:
            raise Refused(
                Reason.NOT_ANSWERED,
                f"feedback: response {shown(feedback.id)} was not answered by the policy; label only answered responses",
            )
        if not answered or feedback.correct:
            return False
        if self.abstains:
            return True
        if feedback.strong_correct is None:
            raise Refused(
                Reason.NEEDS_STRONG_CORRECT,
                f"feedback: response {shown(feedback.id)} was kept and is wrong, and strong_correct is missing; say whether the"
                " strong model is right on that question",
            )
        return feedback.strong_correct

    def events(self, kept: Truths, correct: Truths, strong_correct: Truths | None) -> tuple[IntArray, Truths]:
        """Which of many responses count, by index, and whether each of those is an event."""
        if self.abstains:
            counted = np.flatnonzero(kept)
            return counted, ~correct[counted]
        assert strong_correct is not None
        return np.arange(len(kept)), kept & ~correct & strong_correct
