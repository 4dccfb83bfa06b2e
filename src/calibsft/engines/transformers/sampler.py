"""Draw the next token of every row, each row from its own random stream.

Randomness is counter-based: token t of a row depends only on the row's seed and t, so the other rows of the batch do not
change it. Torch's own generators cannot do that.
"""

import torch
from torch import Tensor

_MASK_53 = (1 << 53) - 1
# How many of the most likely tokens `top_p` is looked for in first: to sort a vocabulary takes as long as the model.
CANDIDATES = 256


def uniform(seeds: Tensor, step: int) -> Tensor:
    """One number in [0, 1) per 64-bit seed: splitmix64 of seed and step, as float64."""
    x = seeds + _signed((step + 1) * 0x9E3779B97F4A7C15)
    x = (x ^ _shift_right(x, 30)) * _signed(0xBF58476D1CE4E5B9)
    x = (x ^ _shift_right(x, 27)) * _signed(0x94D049BB133111EB)
    x = x ^ _shift_right(x, 31)
    return (_shift_right(x, 11) & _MASK_53).double() / (1 << 53)


def _signed(value: int) -> int:
    """`value` modulo 2^64 as the signed integer that torch's int64 stands for."""
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def _shift_right(x: Tensor, bits: int) -> Tensor:
    # torch shifts int64 arithmetically; the mask makes it logical
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def draw(logits_S_V: Tensor, state_B: Tensor, uniform_B: Tensor, temperature: float, top_p: float) -> Tensor:
    """The token drawn by each row from the distribution of its state. Temperature 0 takes the most likely one.

    With `top_p` below 1 a token is drawn from the smallest set of most likely tokens whose mass reaches `top_p`; the most
    likely one is always in it.
    """
    if temperature == 0:
        return logits_S_V.argmax(-1)[state_B]
    probs_S_V = (logits_S_V / temperature).softmax(-1)
    if top_p >= 1:
        return _invert(probs_S_V, state_B, uniform_B)
    return _draw_likely(probs_S_V, state_B, uniform_B, top_p)


def _draw_likely(probs_S_V: Tensor, state_B: Tensor, uniform_B: Tensor, top_p: float) -> Tensor:
    """Draw from the most likely tokens: among the candidates, or where `top_p` needs more of them, among all."""
    if probs_S_V.shape[-1] <= CANDIDATES:
        return _pick(*probs_S_V.sort(dim=-1, descending=True), state_B, uniform_B, top_p)
    tokens_S_K = probs_S_V.topk(CANDIDATES, sorted=False).indices.sort(-1).values
    probs_S_K, order_S_K = _falling(probs_S_V.gather(-1, tokens_S_K))
    ids_B = _pick(probs_S_K, tokens_S_K.gather(-1, order_S_K), state_B, uniform_B, top_p)
    # Other tokens may be as likely as the last candidate, and come before it in the order of all.
    lacking_S = (_inside(probs_S_K, top_p) & (probs_S_K == probs_S_K[:, -1:])).any(-1)
    if lacking_B := lacking_S[state_B].nonzero().squeeze(-1).tolist():
        states_L, state_R = torch.unique(state_B[lacking_B], return_inverse=True)
        ids_B[lacking_B] = _pick(*_falling(probs_S_V[states_L]), state_R, uniform_B[lacking_B], top_p)
    return ids_B


def _falling(probs_S_K: Tensor) -> tuple[Tensor, Tensor]:
    """Probabilities in descending order and their places; of equal ones the first place comes first."""
    return probs_S_K.sort(dim=-1, descending=True, stable=True)


def _pick(sorted_S_K: Tensor, order_S_K: Tensor, state_B: Tensor, uniform_B: Tensor, top_p: float) -> Tensor:
    likely_S_K = sorted_S_K.where(_inside(sorted_S_K, top_p), 0.0)
    return order_S_K[state_B, _invert(likely_S_K, state_B, uniform_B)]


def _inside(sorted_S_K: Tensor, top_p: float) -> Tensor:
    """Which of the falling probabilities are in the smallest set whose mass reaches `top_p`."""
    return sorted_S_K.cumsum(-1) - sorted_S_K < top_p


def _invert(weights_S_V: Tensor, state_B: Tensor, uniform_B: Tensor) -> Tensor:
    """The first index at which the running sum exceeds the row's share of the total; its weight is never 0."""
    running_S_V = weights_S_V.cumsum(-1, dtype=torch.float64)
    wanted_B = uniform_B * running_S_V[state_B, -1]
    return (running_S_V[state_B] > wanted_B[:, None]).to(torch.int8).argmax(-1)
