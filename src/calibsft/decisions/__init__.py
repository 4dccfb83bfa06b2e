"""Decisions with guarantees: when to answer, so that the error rate is certified.

Works on (confidence, correct, question id) of any model. Does not ask models, grade answers or draw anything.
"""

from calibsft.decisions.bounds import error_rate_upper_bound
from calibsft.decisions.coverage import certified_coverage, perfect_ranking
from calibsft.decisions.selective import Candidate, Certificate, certify

__all__ = [
    "Candidate",
    "Certificate",
    "certified_coverage",
    "certify",
    "error_rate_upper_bound",
    "perfect_ranking",
]
