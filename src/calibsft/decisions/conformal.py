"""Conformal risk control: a loss that is bounded on average over calibrations, not with high probability.

The lowest threshold at which (events + 1) / (questions + 1) is at most the budget (Angelopoulos et al., 2024). Valid only for
a loss that cannot rise with the threshold, as routing's. The error rate among given answers can rise, so
`certify` does not offer it.
"""

from dataclasses import dataclass

from calibsft.decisions.table import BoundsAndCertified, ThresholdTable

NAME = "conformal-risk-control"


@dataclass(frozen=True, slots=True, eq=False)
class ConformalTable(ThresholdTable):
    """Thresholds whose expected loss is compared with the budget."""

    def tested(self, budget: float) -> BoundsAndCertified:
        expected = (self.counts.events + 1) / (self.counts.n + 1)
        return expected, expected <= budget
