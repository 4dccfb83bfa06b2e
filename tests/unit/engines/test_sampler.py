"""The sampler draws what it should: right shares, independent streams, exact nucleus."""

import pytest
import torch
from torch import Tensor

from calibsft.engines.engine import sample_seed
from calibsft.engines.transformers import sampler
from calibsft.engines.transformers.sampler import uniform

SEEDS = torch.tensor([sample_seed(0, "d", "q", i) for i in range(20_000)])


def draw(logits_B_V: Tensor, uniform_B: Tensor, temperature: float, top_p: float) -> Tensor:
    """Draw with a state of its own for every row."""
    return sampler.draw(logits_B_V, torch.arange(len(logits_B_V)), uniform_B, temperature, top_p)


def test_rows_that_share_a_state_draw_what_they_would_draw_alone() -> None:
    logits_S_V = torch.tensor([[0.0, 1.0, 0.5], [2.0, 0.0, 0.0]])
    state_B = torch.tensor([0, 1, 0, 0, 1]).repeat(100)
    numbers = uniform(SEEDS[:500], 0)
    shared = sampler.draw(logits_S_V, state_B, numbers, 0.9, 0.95)
    assert torch.equal(shared, draw(logits_S_V[state_B], numbers, 0.9, 0.95))


def test_uniform_numbers_are_uniform_and_differ_by_step() -> None:
    first, second = uniform(SEEDS, 0), uniform(SEEDS, 1)
    assert ((first >= 0) & (first < 1)).all()
    counts = torch.histc(first, bins=20, min=0, max=1)
    chi_square = ((counts - 1000) ** 2 / 1000).sum().item()
    assert chi_square < 43.8  # 99.9 % quantile of chi-square with 19 degrees of freedom
    assert abs(torch.corrcoef(torch.stack([first, second]))[0, 1].item()) < 0.03


def test_uniform_matches_the_published_splitmix64_sequence() -> None:
    # Reference: first outputs of splitmix64 seeded with 1234567.
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    for step, number in enumerate(expected):
        assert uniform(torch.tensor([1234567]), step).item() == (number >> 11) / 2**53


def test_draws_follow_the_distribution() -> None:
    probs = torch.tensor([0.5, 0.3, 0.15, 0.05])
    ids = draw(probs.log().expand(len(SEEDS), 4), uniform(SEEDS, 0), temperature=1.0, top_p=1.0)
    shares = torch.bincount(ids, minlength=4) / len(SEEDS)
    assert torch.allclose(shares, probs, atol=0.012)


def test_temperature_sharpens_and_zero_is_greedy() -> None:
    logits = torch.tensor([[0.0, 1.0, 0.5]])
    probs = (logits[0] / 0.5).softmax(-1)
    ids = draw(logits.expand(len(SEEDS), 3), uniform(SEEDS, 0), temperature=0.5, top_p=1.0)
    assert torch.allclose(torch.bincount(ids, minlength=3) / len(SEEDS), probs, atol=0.012)
    assert draw(logits, torch.tensor([0.999]), temperature=0.0, top_p=0.1).item() == 1


def test_nucleus_keeps_the_smallest_set_that_reaches_top_p() -> None:
    probs = torch.tensor([0.05, 0.5, 0.15, 0.3])
    ids = draw(probs.log().expand(len(SEEDS), 4), uniform(SEEDS, 0), temperature=1.0, top_p=0.7)
    shares = torch.bincount(ids, minlength=4) / len(SEEDS)
    assert torch.allclose(shares, torch.tensor([0.0, 0.625, 0.0, 0.375]), atol=0.012)


def test_nucleus_never_loses_the_most_likely_token() -> None:
    logits = torch.tensor([[5.0, 0.0, 0.0]])
    assert draw(logits, torch.tensor([0.999999]), temperature=1.0, top_p=1e-6).item() == 0


def test_candidates_draw_what_a_sort_of_the_whole_vocabulary_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    peaked, flat, coarse = torch.randn(3, 4, 3000) * torch.tensor([6.0, 0.1, 3.0])[:, None, None]
    # Rounded, many tokens are equally likely, also where the candidates end.
    logits = torch.cat([peaked, flat, coarse.round(), torch.zeros(1, 3000)])
    state_B = torch.arange(len(logits)).repeat(400)
    numbers = uniform(SEEDS[: len(state_B)], 0)
    found = [sampler.draw(logits, state_B, numbers, 1.0, top_p) for top_p in (0.3, 0.95)]
    monkeypatch.setattr(sampler, "CANDIDATES", 2999)  # with all, the order of equal ones is torch's
    expected = [sampler.draw(logits, state_B, numbers, 1.0, top_p) for top_p in (0.3, 0.95)]
    assert all(map(torch.equal, found, expected))


def test_a_token_of_probability_zero_is_never_drawn() -> None:
    logits = torch.tensor([[0.0, -torch.inf, -torch.inf]])
    for number in (0.0, 0.5, 1 - 2**-53):
        assert draw(logits, torch.tensor([number], dtype=torch.float64), 1.0, 1.0).item() == 0


def test_seeds_depend_on_run_dataset_question_and_sample() -> None:
    seeds = {
        sample_seed(0, "d", "q", 0), sample_seed(1, "d", "q", 0), sample_seed(0, "e", "q", 0),
        sample_seed(0, "d", "r", 0), sample_seed(0, "d", "q", 1), sample_seed(0, "dq", "", 0),
    }  # fmt: skip
    assert len(seeds) == 6
