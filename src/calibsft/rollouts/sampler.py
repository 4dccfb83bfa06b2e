"""Draw the next token of every row, each row from its own random stream.

Randomness is counter-based: token t of a row depends on the row's seed and t alone, so the batch around a
row never changes what it draws. Torch's own generators cannot do that.
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


def draw(logits_B_V: Tensor, uniform_B: Tensor, temperature: float, top_p: float) -> Tensor:
    """The drawn token per row. Temperature 0 takes the most likely one.

    With `top_p` below 1 only the smallest set of most likely tokens whose mass reaches it can be drawn; the
    most likely one always can.
    """
    if temperature == 0:
        return logits_B_V.argmax(-1)
    probs_B_V = (logits_B_V / temperature).softmax(-1)
    if top_p >= 1:
        return _invert(probs_B_V, uniform_B)
    sorted_B_V, order_B_V = probs_B_V.sort(-1, descending=True)
    outside_B_V = sorted_B_V.cumsum(-1) - sorted_B_V >= top_p
    index_B = _invert(sorted_B_V.masked_fill(outside_B_V, 0.0), uniform_B)
    return order_B_V.gather(-1, index_B[:, None]).squeeze(-1)


def _invert(weights_B_V: Tensor, uniform_B: Tensor) -> Tensor:
    """The first index at which the running sum exceeds the row's share of the total; never one of weight 0."""
    running_B_V = weights_B_V.cumsum(-1, dtype=torch.float64)
    wanted_B = uniform_B * running_B_V[:, -1]
    return (running_B_V > wanted_B[:, None]).to(torch.int8).argmax(-1)
