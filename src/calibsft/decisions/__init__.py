"""Decisions with guarantees: when to answer with a certified error rate, when to defer at little loss.

Works on (confidence, correct, question id) of any model. Does not ask models, grade answers or plot.
"""

from calibsft.decisions.bounds import error_rate_upper_bound
from calibsft.decisions.guarantees import EXPECTATION, GUARANTEES, HIGH_PROBABILITY
from calibsft.decisions.held_out import Answered, Spread, answered_held_out, perfect_ranking, routed_held_out
from calibsft.decisions.needed import Needed
from calibsft.decisions.procedures import FIXED_SEQUENCE, PROCEDURES, RECYCLED, SPLIT, UNION
from calibsft.decisions.routing import Outcome, Route, RoutingCandidate, route
from calibsft.decisions.selection import Selection, select
from calibsft.decisions.selective import Candidate, Certificate, certify

__all__ = [
    "EXPECTATION",
    "FIXED_SEQUENCE",
    "GUARANTEES",
    "HIGH_PROBABILITY",
    "PROCEDURES",
    "RECYCLED",
    "SPLIT",
    "UNION",
    "Answered",
    "Candidate",
    "Certificate",
    "Needed",
    "Outcome",
    "Route",
    "RoutingCandidate",
    "Selection",
    "Spread",
    "answered_held_out",
    "certify",
    "error_rate_upper_bound",
    "perfect_ranking",
    "route",
    "routed_held_out",
    "select",
]
