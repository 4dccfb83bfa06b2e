"""Decisions with guarantees: when to answer with a certified error rate, when to defer at little loss.

Works on (confidence, correct, question id) of any model. Does not ask models, grade answers or plot.
"""

from calibsft.decisions.bounds import error_rate_upper_bound
from calibsft.decisions.held_out import Answered, Spread, answered_held_out, perfect_ranking, routed_held_out
from calibsft.decisions.procedures import FIXED_SEQUENCE, PROCEDURES, UNION
from calibsft.decisions.routing import Outcome, Route, RoutingCandidate, route
from calibsft.decisions.selective import Candidate, Certificate, certify

__all__ = [
    "FIXED_SEQUENCE",
    "PROCEDURES",
    "UNION",
    "Answered",
    "Candidate",
    "Certificate",
    "Outcome",
    "Route",
    "RoutingCandidate",
    "Spread",
    "answered_held_out",
    "certify",
    "error_rate_upper_bound",
    "perfect_ranking",
    "route",
    "routed_held_out",
]
