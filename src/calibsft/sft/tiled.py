"""The losses of many tokens without all their logits in memory at once.

Thousands of tokens times a large vocabulary are gigabytes of logits, and as much again for their gradients. TRL's kernel
computes log-probabilities tile by tile and repeats that in the backward pass. Here it is put inside the output head, so
that wrappers which gather the head's weights when it is called (FSDP, DeepSpeed) keep working. Chooses no tokens: that is
`sft.head`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from trl.kernels import ChunkedLogProbFunction

# Entries of logits that are computed at once, 256 MiB of float32; more are tiled.
FEW_LOGITS = 2**26
TILE_WIDTH = 4096
PROBE_TOKENS = 4


def add_tiled_losses(model: PreTrainedModel) -> None:
    """Let `model(…, predicted=mask)` return the losses (N,) of the marked tokens (B, T) instead of logits."""
    plain_forward, softcap = model.forward, _softcap(model)

    def forward(*args: Any, predicted: Tensor | None = None, **inputs: Any) -> Any:
        if predicted is None:
            return plain_forward(*args, **inputs)
        hidden_B_T_H = model.base_model(*args, **inputs).last_hidden_state
        # Position t predicts token t+1.
        hidden_N_H = hidden_B_T_H[predicted.roll(-1, dims=1)]
        head = model.get_output_embeddings()
        with _returning_losses(head, inputs["input_ids"][predicted], softcap):
            return head(hidden_N_H)

    model.forward = forward


def can_be_tiled(model: PreTrainedModel) -> bool:
    """Whether the model's logits are those of a plain output head, capped or not; some models scale them besides."""
    head = model.get_output_embeddings()
    if type(head) is not nn.Linear:
        return False
    probe = torch.arange(PROBE_TOKENS, device=head.weight.device)[None]
    with torch.no_grad():
        logits = model(input_ids=probe).logits
        plain = head(model.base_model(input_ids=probe).last_hidden_state)
    cap = _softcap(model)
    capped = plain if cap is None else cap * torch.tanh(plain / cap)
    return torch.allclose(logits, capped, rtol=1e-3, atol=1e-3 * float(logits.abs().max()))


def _softcap(model: PreTrainedModel) -> float | None:
    cap: float | None = getattr(model.config.get_text_config(), "final_logit_softcapping", None)
    return cap


@contextmanager
def _returning_losses(head: nn.Module, ids_N: Tensor, softcap: float | None) -> Iterator[None]:
    """Inside, the head returns the losses of these tokens."""

    def forward(hidden_N_H: Tensor) -> Tensor:
        logprobs_N: Tensor = ChunkedLogProbFunction.apply(
            hidden_N_H, head.weight, head.bias, ids_N, 1.0, TILE_WIDTH, softcap, 1.0, ()
        )[0]
        return -logprobs_N

    plain_forward = head.forward
    head.forward = forward
    try:
        yield
    finally:
        head.forward = plain_forward
