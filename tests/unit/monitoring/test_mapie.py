"""E-values against MAPIE's: equal where the conventions meet, and sooner where they do not.

MAPIE 1.6 has no Bernoulli mixture against a budget. Two of its parts are near enough to compare:

- `SequentialMonteCarloTest` bets against a rank with the uniform mixture, which is Beta(1, 1). Its
  null is the uniform distribution of counts, ours that of independent labels at the budget; the
  ratio of the two is a binomial probability.
- `RiskMonitoring` watches a risk by an empirical Bernstein bound, which does not use that losses
  are 0 or 1. It spends a quarter of its level: a half is for a reference, half of the rest for the
  other side.
"""

import numpy as np
import pytest
from scipy.stats import binom

from calibsft.monitoring import Monitor
from calibsft.monitoring.e_process import log_e_value

pytest.importorskip("mapie", minversion="1.6")

from mapie.exchangeability_testing import RiskMonitoring, SequentialMonteCarloTest

# MAPIE's mixture ends at 0.9 times its level.
SHARE = 0.9


def wealth(losses: list[bool], level: float) -> np.ndarray:
    """MAPIE's largest wealth so far, at least 1, after every permutation that loses or not."""

    class Given(SequentialMonteCarloTest):
        def _compute_non_conformity_scores(self, X: object, y: object) -> np.ndarray:
            return np.zeros(1)

    test = Given(
        "binomial_mixture", level, random_state=0, num_permutations=len(losses), warn=False, burn_in=10**9
    )
    statistics = iter([0.0, *(1.0 if loss else -1.0 for loss in losses)])
    test.test_statistic = lambda scores: next(statistics)
    test.run(np.zeros((1, 1)), np.zeros(1))
    return 1 / np.asarray(test.p_values)[1:]


@pytest.mark.parametrize("level", [0.05, 0.3, 0.6])
def test_with_the_uniform_mixture_it_is_the_wealth_of_mapies_binomial_mixture(level: float) -> None:
    budget = 1 - SHARE * level
    losses = np.random.default_rng(3).random(400) < SHARE * level / 3
    events, labels = np.cumsum(~losses), np.arange(1, 401)
    counts = zip(labels.tolist(), events.tolist(), strict=True)
    logs = np.array([log_e_value(n, k, budget, 1) for n, k in counts])
    # Our null makes these counts so likely, theirs all counts of as many labels equally.
    ours = np.exp(logs + binom.logpmf(events, labels, budget)) * (labels + 1)
    assert ours.max() > 1.5, "the comparison is of more than ones"
    assert np.maximum.accumulate(np.maximum(ours, 1)) == pytest.approx(
        wealth(losses.tolist(), level), rel=1e-9
    )


@pytest.mark.parametrize("seed", range(4))
def test_alarms_are_no_later_than_those_of_mapies_risk_monitoring(seed: int) -> None:
    wrong = np.random.default_rng(seed).random(1200) < 0.22
    theirs = RiskMonitoring("accuracy", threshold=0.1, warn=False)
    theirs.update(np.ones(1200, dtype=int), 1 - wrong.astype(int))
    bounds = theirs.online_risk_lower_bound_sequence_history
    monitor = Monitor(0.1)
    for event in wrong.tolist():
        monitor.add(event)
    assert monitor.state.alarmed_at is not None
    assert monitor.state.alarmed_at <= int(np.argmax(bounds > 0.1)) + 1
    assert bounds[-1] < monitor.state.lower_bound < 0.22
