"""Proposition 1: what a value hardly ever says, it hardly learns."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from calibsft.rl.prior_gradient import Context, reward_gradient


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
