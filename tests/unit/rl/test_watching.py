"""What is seen of a training step, by hand: the gap between sampler and trainer, and who gets the gradient."""

from math import exp, log

import pytest
import torch

from calibsft.rl.methods import METHODS
from calibsft.rl.watching import StepWatch, watched

# Two rows of three tokens; the last token of the second row is padding.
BATCH = {
    "completion_mask": torch.tensor([[1, 1, 1], [1, 1, 0]]),
    "old_per_token_logps": torch.tensor([[-1.0, -1.0, -1.0], [-1.0, -1.0, 0.0]]),
    "advantages": torch.tensor([[1.0, 1.0, 2.0], [-1.0, -3.0, 9.0]]),
    "confidence_mask": torch.tensor([[False, False, True], [False, True, True]]),
    "stale": torch.tensor([False, False]),
}


def seen(
    newest: list[list[float]], first: bool = True, stale: bool = False, **settings: float
) -> dict[str, float]:
    watch = StepWatch(METHODS["rlcr"].settings(**settings))
    watch.add({**BATCH, "stale": torch.tensor([stale, False])}, torch.tensor(newest), first)
    return watched(watch.sums)


def test_the_same_log_probabilities_have_no_gap() -> None:
    found = seen([[-1.0, -1.0, -1.0], [-1.0, -1.0, 7.0]])
    assert found["sampler/gap"] == found["sampler/kl"] == found["sampler/clipped"] == 0
    # Pulls of 1, 1, 2 and 1, 3; those of confidence are 2 and 3.
    assert found["gradient/confidence"] == pytest.approx(5 / 8)


def test_the_gap_is_a_mean_over_real_tokens() -> None:
    found = seen([[-0.5, -1.0, -1.0], [-1.0, -1.0, 7.0]])
    assert found["sampler/gap"] == pytest.approx(0.5 / 5)
    assert found["sampler/kl"] == pytest.approx((exp(0.5) - 1 - 0.5) / 5)
    assert found["sampler/clipped"] == pytest.approx(1 / 5), "exp(0.5) is above 1.28"


def test_responses_of_older_weights_are_no_gap() -> None:
    assert seen([[-0.5, -1.0, -1.0], [-1.0, -1.0, 7.0]], stale=True)["sampler/gap"] == 0


def test_clipped_tokens_get_no_gradient() -> None:
    # The first row's first token is too likely for its good advantage, the second row's confidence too unlikely for its bad one.
    found = seen([[-0.5, -1.0, -1.0], [-1.0, -1.0 + log(0.7), 0.0]])
    assert found["gradient/confidence"] == pytest.approx(2 / (1 + 2 + 1))
    bounded = seen([[-1.0, -1.0, -1.0], [-1.0, -1.0 + log(4), 0.0]], dual_clip=3.0)
    assert bounded["gradient/confidence"] == pytest.approx(2 / (1 + 1 + 2 + 1))
    unbounded = seen([[-1.0, -1.0, -1.0], [-1.0, -1.0 + log(4), 0.0]])
    assert unbounded["gradient/confidence"] == pytest.approx((2 + 12) / (1 + 1 + 2 + 1 + 12))


def test_later_updates_are_no_gap_and_nothing_to_learn_has_no_share() -> None:
    found = seen([[-0.5, -1.0, -1.0], [-1.0, -1.0, 7.0]], first=False)
    assert found["sampler/gap"] == 0 and "gradient/confidence" in found
    assert "gradient/confidence" not in watched(torch.zeros(6))


def test_the_share_of_the_only_segment_with_a_gradient_is_exactly_one() -> None:
    # A sum over all tokens rounds otherwise than one over some of them, even if the others are 0.
    for seed in range(50):
        torch.manual_seed(seed)
        mask = torch.rand(64, 30) < 0.4
        watch = StepWatch(METHODS["redoubt"].settings())
        watch.add(
            {
                "completion_mask": torch.ones(64, 30),
                "old_per_token_logps": torch.zeros(64, 30),
                "advantages": torch.randn(64, 30) * mask,
                "confidence_mask": mask,
                "stale": torch.zeros(64, dtype=torch.bool),
            },
            torch.randn(64, 30) * 0.05,
            True,
        )
        assert watched(watch.sums)["gradient/confidence"] == 1
