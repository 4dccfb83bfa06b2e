"""Compute logits only where a token is supervised.

The vocabulary projection of a long prompt needs more memory than anything else in fine-tuning, and its result is not
used. A hook gives the output head the supervised positions alone. The model's own forward runs unchanged, so wrappers such
as DDP, FSDP and PEFT keep working.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from calibsft.sft.loss import token_losses


@contextmanager
def logits_only_at(head: nn.Module, positions_B_T: Tensor) -> Iterator[None]:
    """Inside, the head gets hidden states (N, H) of the marked positions instead of (B, T, H)."""

    def keep(module: nn.Module, args: tuple[Any, ...]) -> tuple[Tensor]:
        return (args[0][positions_B_T],)

    hook = head.register_forward_pre_hook(keep)
    try:
        yield
    finally:
        hook.remove()


def losses_at(
    model: nn.Module, head: nn.Module, batch: Mapping[str, Tensor], marked_B_T: Tensor, tiled: bool = False
) -> tuple[Tensor, Tensor]:
    """The losses (N,) of the marked tokens, and where these are; nothing predicts the first token of a row.

    `head` is the output head of `model`, which may be wrapped for several devices. `tiled` is for models with
    `sft.tiled.add_tiled_losses`.
    """
    predicted_B_T = marked_B_T.clone()
    predicted_B_T[:, 0] = False
    inputs = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"], "use_cache": False}
    if tiled:
        return model(**inputs, predicted=predicted_B_T), predicted_B_T
    # Position t predicts token t+1.
    with logits_only_at(head, predicted_B_T.roll(-1, dims=1)):
        logits_N_V = model(**inputs).logits
    return token_losses(logits_N_V, batch["input_ids"][predicted_B_T]), predicted_B_T
