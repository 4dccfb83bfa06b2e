"""Diagnosis of a confidence prior: can RL learn calibration from what a model states now, or does it need CalibSFT first.

`diagnose` takes (confidence, correct) and optionally which question each response answers; Propositions 1 and 2 of
the paper are functions here. Does not load models, sample or read files: `calibsft diagnose` does that before.
"""

from calibsft.prior.diagnosis import Diagnosis, diagnose

__all__ = ["Diagnosis", "diagnose"]
