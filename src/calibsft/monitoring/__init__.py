"""Watches the promise of a policy with labels that arrive later.

Does not decide what to answer (`decisions`), serve (`gateway`) or act on an alarm.
"""

from calibsft.monitoring.feedback import Feedback, Reason, Refused, read_feedback
from calibsft.monitoring.promise import Promise
from calibsft.monitoring.state import Monitor, State
from calibsft.monitoring.store import FeedbackStore
from calibsft.monitoring.watch import Watched, watch

__all__ = [
    "Feedback",
    "FeedbackStore",
    "Monitor",
    "Promise",
    "Reason",
    "Refused",
    "State",
    "Watched",
    "read_feedback",
    "watch",
]
