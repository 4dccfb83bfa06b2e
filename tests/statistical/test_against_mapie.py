"""Risk control beside the library mapie, where the conventions are the same.

They are: the exact binomial p-value of a binary loss, Bonferroni's correction, sequences whose starts are evenly spaced, and
the adjusted risk of conformal risk control. mapie counts 101 candidates for routing, and the paper 102; it has no recycling.
"""

import numpy as np
import pytest

from calibsft.decisions import route
from calibsft.decisions.bounds import error_rate_p_value
from calibsft.decisions.procedures import FIXED_SEQUENCE, PROCEDURES, UNION, Family
from calibsft.decisions.selective import FAMILY, counted_risks
from calibsft.decisions.thresholds import accepted_from

pytest.importorskip("mapie", reason="an oracle of the dev extra")
from mapie.risk_control import fwer_control, methods

DELTA = 0.05
SEEDS = pytest.mark.parametrize("seed", range(10))


def responses(seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    stated = random.integers(0, 101, 800)
    return stated, random.random(800) < 0.4 + stated / 180


@SEEDS
@pytest.mark.parametrize("risk", [0.1, 0.25, 0.4])
def test_p_values_are_those_of_a_binary_loss(seed: int, risk: float) -> None:
    reached, correct = responses(seed)
    counts = counted_risks(reached, correct, DELTA).counts
    rate = counts.events / counts.n
    theirs = methods.compute_hoeffding_bentkus_p_value(rate, counts.n, np.array([risk]), binary=True)
    # mapie rounds the number of errors up again, and 0.07 · 100 is more than 7 in floats.
    exact = np.ceil(counts.n * rate) == counts.events
    ours = error_rate_p_value(counts.events, counts.n, risk)
    assert exact.sum() > 80 and ours[exact] == pytest.approx(theirs[exact, 0], abs=1e-9)


@SEEDS
def test_the_union_bound_is_bonferronis(seed: int) -> None:
    p_values = np.random.default_rng(seed).beta(0.1, 5, 101)
    theirs = fwer_control.control_fwer(p_values, DELTA, "bonferroni")
    certified = PROCEDURES[UNION].test(p_values, DELTA, FAMILY)[1]
    assert 0 < len(theirs) < 101 and np.flatnonzero(certified).tolist() == theirs.tolist()


@SEEDS
@pytest.mark.parametrize("starts", [1, 5, 10])
def test_sequences_certify_the_same_from_the_same_starts(seed: int, starts: int) -> None:
    p_values = np.random.default_rng(seed).beta(0.15, 30, 100)
    procedure = fwer_control.FWERFixedSequenceTesting(starts)
    theirs = fwer_control.control_fwer(p_values, DELTA, procedure)
    # They walk up a list, we down the thresholds.
    family = Family(100, tuple(99 - k * (100 // starts) for k in range(starts)))
    certified = PROCEDURES[FIXED_SEQUENCE].test(p_values[::-1], DELTA, family)[1][::-1]
    assert len(theirs) and np.flatnonzero(certified).tolist() == theirs.tolist()


@SEEDS
def test_the_adjusted_loss_is_that_of_conformal_risk_control(seed: int) -> None:
    reached, correct = responses(seed)
    found = route(reached / 100, correct, np.ones(800), range(800), 0.1, guarantee="expectation")
    losses = (reached[:, None] >= np.arange(101)) & ~correct[:, None]
    _, theirs = methods.get_r_hat_plus(losses.astype(float), np.arange(101), "crc", None, None, None)
    assert [one.bound for one in found.candidates] == pytest.approx(theirs.tolist(), abs=1e-9)
    assert found.threshold == np.flatnonzero(theirs <= 0.1)[0] / 100
    assert accepted_from(reached)[0] == 800
