"""What is known after some labels: counts, e-value, lower bound, and whether there is an alarm.

A state follows from the one before it and the next label, and says all that is needed to go on.
Does not know what an event is (`promise` does), and keeps nothing (`store` does).
"""

import sys
from dataclasses import dataclass, replace
from math import exp, log

import numpy as np

from calibsft.decisions.selective import DELTA, require_shares
from calibsft.errors import InputError
from calibsft.monitoring import e_process

LARGEST_LOG = log(sys.float_info.max)


@dataclass(frozen=True, slots=True)
class State:
    """What the labels so far say of "events are at most as frequent as the budget".

    Attributes
    ----------
    budget : how frequent events may be.
    delta : the probability of an alarm although they are not more frequent, over any number of
        labels.
    labels, events : how many labels came, and how many of them were events.
    lower_bound : events are at least so frequent; wrong at any time with probability at most
        `delta`.
    alarmed_at : the number of the label, from 1, that raised the alarm; None if there is none. It
        stays.
    """

    budget: float
    delta: float
    labels: int = 0
    events: int = 0
    lower_bound: float = 0.0
    alarmed_at: int | None = None

    def __post_init__(self) -> None:
        require_shares(budget=self.budget, delta=self.delta)

    @property
    def alarm(self) -> bool:
        return self.alarmed_at is not None

    @property
    def rate(self) -> float | None:
        """The share of events among the labels; None before the first."""
        return self.events / self.labels if self.labels else None

    @property
    def log_e_value(self) -> float:
        """The logarithm of the e-value now; an alarm began when it reached that of 1/delta."""
        return e_process.log_e_value(self.labels, self.events, self.budget, self._c)

    @property
    def e_value(self) -> float:
        """The e-value now, at most the largest float."""
        return exp(min(self.log_e_value, LARGEST_LOG))

    def after(self, event: bool) -> "State":
        """The state after one more label."""
        if not isinstance(event, bool | np.bool_):
            raise InputError(f"a label is {event!r}; give True for an event and False for none")
        labels = self.labels + 1
        if not event:  # evidence against any rate grows with events alone
            return replace(self, labels=labels)
        counts = labels, self.events + 1
        bound = e_process.lower_bound(*counts, self.delta, self._c, self.lower_bound)
        alarmed_at = self.alarmed_at
        if alarmed_at is None and e_process.rejects(*counts, self.budget, self.delta, self._c):
            alarmed_at = labels
        return replace(self, labels=labels, events=counts[1], lower_bound=bound, alarmed_at=alarmed_at)

    @property
    def _c(self) -> float:
        return e_process.concentration(self.budget)


class Monitor:
    """A watch over a rate: `Monitor(0.1).add(event)` for every label, in order of arrival."""

    def __init__(self, budget: float, delta: float = DELTA) -> None:
        self.state = State(budget, delta)

    def add(self, event: bool) -> State:
        """Count one label; True if what must be rare happened."""
        self.state = self.state.after(event)
        return self.state
