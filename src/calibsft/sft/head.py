"""Compute logits only where a token is supervised.

The vocabulary projection of a long prompt needs more memory than anything else in fine-tuning, and its result is not
used. A hook gives the output head the supervised positions alone. The model's own forward runs unchanged, so wrappers such
as DDP, FSDP and PEFT keep working.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn


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
