"""Sample with any Hugging Face causal model, on CPU or GPU.

Log-probabilities and entropies come from the logits of the sampling. Prompts are token ids: `responses.prompts` makes them.
Does not do tensor parallelism or paged attention: use vLLM for that.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from calibsft.engines.engine import Completion, FloatArray, OnDone, OnSample, Request, Sampling, Tokens
from calibsft.engines.transformers import MAX_ROWS
from calibsft.engines.transformers.attention import quick_single_tokens
from calibsft.engines.transformers.batches import batches_of, last_logits, left_padded, passes
from calibsft.engines.transformers.decoding import Decoding
from calibsft.models import context_length, require_end_token


class TransformersEngine:
    """Samples from one loaded model, at most `max_rows` sequences side by side."""

    usage: Mapping[str, int] = {}

    def __init__(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, max_rows: int = MAX_ROWS
    ) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.max_rows = max_rows
        self.end_ids = end_token_ids(model, tokenizer)
        self.context = context_length(model)

    @property
    def device(self) -> str:
        return str(self.model.device)

    def update_weights(self, model: PreTrainedModel) -> None:
        """Sample from `model` itself from now on: nothing is copied."""
        self.model = model

    @torch.inference_mode()
    def generate(
        self, requests: Sequence[Request], sampling: Sampling, on_sample: OnSample | None = None
    ) -> list[list[Completion]]:
        """Sample every seed of every request; `on_sample` is called after each batch."""
        results: list[list[Completion | None]] = [[None] * len(request.seeds) for request in requests]
        # A batch is drawn as a whole, whatever is done of it: its rows' figures are rounded together.
        batches = batches_of(requests, self.max_rows)
        for batch in (b for b in batches if any(set(rows) - requests[i].done for i, rows in b)):
            with quick_single_tokens(self.model):
                completions = Decoding(self, [requests[i] for i, _ in batch], batch, sampling).run()
            for (request, sample), completion in completions:
                results[request][sample] = completion
                if on_sample:
                    on_sample(request, sample, completion)
        return [[completion for completion in row if completion is not None] for row in results]

    @torch.inference_mode()
    def next_logprobs(
        self, prompts: Sequence[Tokens], ids: Sequence[int], on_done: OnDone = None
    ) -> FloatArray:
        """One pass over every distinct prompt; see `NextTokens`."""
        copies = Counter(prompts)
        found: dict[tuple[int, ...], FloatArray] = {}
        for batch in passes(copies, self.max_rows):
            ids_B_T, mask_B_T, positions_B_T = left_padded(batch, self.end_ids[0], self.model.device)
            logits_B_V = last_logits(self.model, ids_B_T, mask_B_T, positions_B_T, cache=None)
            logprobs_B_V = logits_B_V.log_softmax(-1)
            found |= zip(batch, logprobs_B_V[:, list(ids)].cpu().numpy(), strict=True)
            if on_done:
                on_done(sum(copies[prompt] for prompt in batch))
        return np.array([found[prompt] for prompt in prompts], dtype=np.float32).reshape(-1, len(ids))


def end_token_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    """Every id that ends a response: the tokenizer's, and those of the model's generation config."""
    require_end_token(tokenizer, model.config.name_or_path or "this model")
    named = model.generation_config.eos_token_id if model.generation_config else None
    ids = {tokenizer.eos_token_id, *(named if isinstance(named, list) else [named])} - {None}
    return tuple(sorted(ids))
