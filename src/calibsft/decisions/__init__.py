"""Decisions with guarantees: when to answer so that the error rate is certified, when to defer so that little is lost.

Works on (confidence, correct, question id) of any model. Does not ask models, grade answers or draw anything.
"""

from calibsft.decisions.bounds import error_rate_upper_bound
from calibsft.decisions.coverage import certified_coverage, perfect_ranking
from calibsft.decisions.procedures import FIXED_SEQUENCE, PROCEDURES, UNION
from calibsft.decisions.routing import Outcome, Route, RoutingCandidate, route
from calibsft.decisions.selective import Candidate, Certificate, certify

__all__ = [
    "FIXED_SEQUENCE",
    "PROCEDURES",
    "UNION",
    "Candidate",
    "Certificate",
    "Outcome",
    "Route",
    "RoutingCandidate",
    "certified_coverage",
    "certify",
    "error_rate_upper_bound",
    "perfect_ranking",
    "route",
]
