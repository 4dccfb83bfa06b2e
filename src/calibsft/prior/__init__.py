"""Diagnosis of a confidence prior: can RL learn calibration from it, or is CalibSFT needed first?

`diagnose` takes confidence, correctness and optionally the question of each response. Propositions 1 and 2 of the paper
are functions here. Does not load models or sample: `calibsft diagnose` does that.
"""

from calibsft.prior.diagnosis import Diagnosis, diagnose

__all__ = ["Diagnosis", "diagnose"]
