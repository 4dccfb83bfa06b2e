"""Draw the next token of every row, each row from its own random stream.

Randomness is counter-based: token t of a row depends only on the row's seed and t, so the other rows of the batch do not
change it. Torch's own generators cannot do that.
"""

import torch
from torch import Tensor

_MASK_53 = (1 << 53) - 1


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
    sorted_S_V, order_S_V = probs_S_V.sort(-1, descending=True)
    outside_S_V = sorted_S_V.cumsum(-1) - sorted_S_V >= top_p
    index_B = _invert(sorted_S_V.masked_fill(outside_S_V, 0.0), state_B, uniform_B)
    return order_S_V[state_B, index_B]


def _invert(weights_S_V: Tensor, state_B: Tensor, uniform_B: Tensor) -> Tensor:
    """The first index at which the running sum exceeds the row's share of the total; its weight is never 0."""
    running_S_V = weights_S_V.cumsum(-1, dtype=torch.float64)
    wanted_B = uniform_B * running_S_V[state_B, -1]
    return (running_S_V[state_B] > wanted_B[:, None]).to(torch.int8).argmax(-1)
