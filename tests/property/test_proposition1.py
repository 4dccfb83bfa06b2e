"""Proposition 1: what a value hardly ever says, it hardly learns."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from calibsft.metrics.table import ConfidenceTable
from calibsft.prior.gradient import expected_reward, logit_gradient
from calibsft.prior.gradient import reward_gradient as diagnosed_gradient
from calibsft.rl.prior_gradient import Context, reward_gradient

ROUNDING = 1e-12


@given(
    st.lists(st.floats(-8, 8), min_size=2, max_size=12),
    st.booleans(),
    st.integers(0, 1000),
)
def test_proposition_1_is_the_derivative_of_the_expected_reward(
    logits: list[float], correct: bool, seed: int
) -> None:
    values = tuple(np.random.default_rng(seed).uniform(size=len(logits)))
    eta = torch.tensor(logits, dtype=torch.float64, requires_grad=True)
    rewards = torch.tensor([-((value - correct) ** 2) for value in values], dtype=torch.float64)
    (eta.softmax(0) * rewards).sum().backward()
    probability = eta.detach().softmax(0).numpy()
    found = reward_gradient(probability[None], [Context(correct, values, ())])[0]
    assert found == pytest.approx(eta.grad.numpy(), abs=1e-12)
    # The proposition's bound: all but the likeliest value have probability epsilon together.
    spread, epsilon = float(rewards.max() - rewards.min()), 1 - probability.max()
    assert np.abs(found).sum() <= 2 * epsilon * spread + 1e-12


@st.composite
def policies(draw: st.DrawFn) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Logits, the value of each, and the chance of being right."""
    logits = draw(st.lists(st.floats(-20, 20), min_size=1, max_size=12))
    hundredths = draw(st.lists(st.integers(0, 100), min_size=len(logits), max_size=len(logits), unique=True))
    return np.array(logits), np.array(hundredths) / 100, draw(st.floats(0, 1))


@given(policies())
def test_the_diagnosed_gradient_is_the_derivative_for_any_chance_of_being_right(
    policy: tuple[NDArray[np.float64], NDArray[np.float64], float],
) -> None:
    logits, values, success = policy
    eta = torch.tensor(logits, requires_grad=True)
    stated = torch.tensor(values)
    # The reward is −(c − Z)², and Z is 1 with the chance of being right.
    reward = -(success * (stated - 1) ** 2 + (1 - success) * stated**2)
    (eta.softmax(0) * reward).sum().backward()
    found = logit_gradient(eta.detach().softmax(0).numpy(), expected_reward(values, success))
    assert eta.grad is not None
    assert found == pytest.approx(eta.grad.numpy(), abs=ROUNDING)
    assert found.sum() == pytest.approx(0, abs=ROUNDING)


@given(policies())
def test_no_value_gets_more_than_its_probability_times_the_spread_and_all_get_twice_epsilon_of_it(
    policy: tuple[NDArray[np.float64], NDArray[np.float64], float],
) -> None:
    logits, values, success = policy
    probability = np.exp(logits - np.logaddexp.reduce(logits))
    reward = expected_reward(values, success)
    spread, epsilon = float(np.ptp(reward)), 1 - float(probability.max())
    size = np.abs(logit_gradient(probability, reward))
    assert (size <= probability * spread + ROUNDING).all()
    assert size.sum() <= (2 - epsilon) * epsilon * spread + ROUNDING
    assert spread <= 1


@pytest.mark.parametrize("epsilon", [0.1, 0.01, 0.001])
def test_the_bound_is_nearly_reached_so_half_of_it_would_be_wrong(epsilon: float) -> None:
    reward = expected_reward(np.array([0.0, 1.0]), 0.0)
    size = np.abs(logit_gradient(np.array([epsilon, 1 - epsilon]), reward)).sum()
    assert size == pytest.approx(2 * epsilon * (1 - epsilon))
    assert size > 1.5 * epsilon


@st.composite
def counted(draw: st.DrawFn) -> ConfidenceTable:
    """Counts of some two-decimal confidences."""
    hundredths = sorted(draw(st.sets(st.integers(0, 100), min_size=1, max_size=20)))
    n = draw(st.lists(st.integers(1, 5000), min_size=len(hundredths), max_size=len(hundredths)))
    k = [draw(st.integers(0, count)) for count in n]
    return ConfidenceTable(np.array(hundredths) / 100, np.array(n), np.array(k))


@given(counted(), st.none() | st.lists(st.floats(0, 1), min_size=1, max_size=8).map(np.array))
def test_a_diagnosis_keeps_within_its_bounds_and_adds_up(
    table: ConfidenceTable, success: NDArray[np.float64] | None
) -> None:
    found = diagnosed_gradient(table, success)
    for value in found.values:
        assert abs(value.gradient) <= value.size + ROUNDING
        assert value.size <= value.bound + ROUNDING
    assert found.norm == pytest.approx(sum(value.size for value in found.values), abs=ROUNDING)
    assert found.norm <= found.norm_bound + ROUNDING
    assert found.rare + sum(value.probability >= 0.001 for value in found.values) == found.format_values
    rare = sum(value.size for value in found.values if value.probability < 0.001)
    assert found.rare_share is None or found.rare_share * found.norm == pytest.approx(rare, abs=ROUNDING)


def test_what_is_good_for_easy_and_bad_for_hard_questions_cancels_out_in_the_sign_alone() -> None:
    table = ConfidenceTable(np.array([0.0, 1.0]), np.array([50, 50]), np.array([25, 25]))
    found = diagnosed_gradient(table, np.array([0.0, 1.0]))
    assert [value.gradient for value in found.values] == [0, 0]
    assert [value.size for value in found.values] == [0.25, 0.25]
    assert diagnosed_gradient(table).norm == 0
