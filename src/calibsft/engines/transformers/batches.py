"""Divide prompts and samples into batches, and pad them. Does not draw tokens: that is `decoding`."""

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import Cache, PreTrainedModel

from calibsft.engines.engine import Request

# Tokens, with padding, of the sequences in one forward pass: some gigabytes with a model of 8B.
PASS_TOKENS = 32_768


def passes(prompts: Iterable[tuple[int, ...]], max_rows: int) -> Iterator[list[tuple[int, ...]]]:
    """Batches of prompts of similar length, as large as `max_rows` and `PASS_TOKENS` allow, but not empty."""
    batch: list[tuple[int, ...]] = []
    for prompt in sorted(prompts, key=len):
        if batch and (len(batch) == max_rows or (len(batch) + 1) * len(prompt) > PASS_TOKENS):
            yield batch
            batch = []
        batch.append(prompt)
    if batch:
        yield batch


def left_padded(
    prompts: Sequence[tuple[int, ...]], pad: int, device: torch.device
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Ids, mask and positions of prompts, padded on the left; no mask if there is no padding."""
    rows = [torch.tensor(prompt, dtype=torch.long) for prompt in prompts]
    ids_S_T = pad_sequence(rows, batch_first=True, padding_value=pad, padding_side="left")
    mask_S_T = pad_sequence([torch.ones_like(row) for row in rows], batch_first=True, padding_side="left")
    positions_S_T = (mask_S_T.cumsum(-1) - 1).clamp(min=0).to(device)
    return ids_S_T.to(device), None if mask_S_T.all() else mask_S_T.to(device), positions_S_T


def last_logits(
    model: PreTrainedModel,
    ids_S_T: Tensor,
    mask_S_T: Tensor | None,
    positions_S_T: Tensor,
    cache: Cache | None,
) -> Tensor:
    """The logits after the last token of every row; the tokens are added to `cache`, if there is one."""
    output = model(
        input_ids=ids_S_T,
        attention_mask=mask_S_T,
        position_ids=positions_S_T,
        past_key_values=cache,
        use_cache=cache is not None,
        logits_to_keep=1,
    )
    logits_S_V: Tensor = output.logits[:, -1].float()
    return logits_S_V


def batches_of(requests: Sequence[Request], max_rows: int) -> list[list[tuple[int, range]]]:
    """Batches of (request, samples) with prompts of similar length."""
    order = sorted(range(len(requests)), key=lambda i: len(requests[i].prompt_ids))
    pieces = (
        (i, range(start, min(start + max_rows, len(requests[i].seeds))))
        for i in order
        for start in range(0, len(requests[i].seeds), max_rows)
    )
    batches: list[list[tuple[int, range]]] = []
    rows = max_rows
    for i, samples in pieces:
        if rows + len(samples) > max_rows:
            batches.append([])
            rows = 0
        batches[-1].append((i, samples))
        rows += len(samples)
    return batches
