"""Attention for one new token per row, as two small matrix products per key-value head.

For a single token, the fused kernel on a CPU spends most of its time on set-up. Queries that share a key-value head become
the rows of one product, so keys and values are never repeated. All other queries use the library's own implementation.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, AttentionMaskInterface

NAME = "calibsft_single_token"


def single_token_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attention of (B, H, T, D) queries over (B, G, S, D) keys and values; the output is (B, T, H, D)."""
    batch, heads, length, width = query.shape
    plain = options.get("softcap") is None and options.get("s_aux") is None
    if length != 1 or not plain or (attention_mask is not None and attention_mask.shape[1] != 1):
        output: tuple[Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **options
        )
        return output
    groups = key.shape[1]
    scale = width**-0.5 if scaling is None else scaling
    scores = (query.reshape(batch, groups, heads // groups, width) * scale) @ key.transpose(2, 3)
    if attention_mask is not None and attention_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attention_mask, -torch.inf)
    elif attention_mask is not None:
        scores = scores + attention_mask
    return (scores.softmax(-1) @ value).reshape(batch, 1, heads, width), None


AttentionInterface.register(NAME, single_token_attention)
AttentionMaskInterface.register(NAME, ALL_MASK_ATTENTION_FUNCTIONS["sdpa"])


@contextmanager
def quick_single_tokens(model: PreTrainedModel) -> Iterator[None]:
    """Inside, a CPU model with the fused kernel uses `single_token_attention`."""
    before = model.config._attn_implementation
    if model.device.type != "cpu" or before != "sdpa":
        yield
        return
    model.set_attn_implementation(NAME)
    try:
        yield
    finally:
        model.set_attn_implementation(before)
