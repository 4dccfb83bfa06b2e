"""Sample with any Hugging Face causal model, on CPU or GPU.

One prefill serves all samples of a question; rows leave the batch when they finish; log-probabilities and
entropies are taken from the logits that the sampling needs anyway. Prompts arrive as token ids: how a
question becomes a prompt is `prompts`. Does not do tensor parallelism or paged attention: that is vLLM's work.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel, PreTrainedTokenizerBase

from calibsft.models import require_end_token
from calibsft.rollouts.cache import make_roomy
from calibsft.rollouts.engine import Completion, Request, Sampling
from calibsft.rollouts.sampler import draw, uniform
from calibsft.rollouts.stopping import StopStrings

# Below this share of live rows the batch is compacted; copying the cache for every finished row costs more.
COMPACT_BELOW = 0.8


@dataclass(slots=True)
class _Row:
    """Where one row's tokens go."""

    request: int
    sample: int


class TransformersEngine:
    """Samples from one loaded model.

    Parameters
    ----------
    max_rows
        Most sequences decoded side by side; bounded by memory.
    """

    def __init__(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, max_rows: int = 1024
    ) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.max_rows = max_rows
        self.end_ids = end_token_ids(model, tokenizer)
        self.context = getattr(model.config.get_text_config(), "max_position_embeddings", None)

    @torch.inference_mode()
    def generate(
        self,
        requests: Sequence[Request],
        sampling: Sampling,
        on_done: Callable[[int, int], None] | None = None,
    ) -> list[list[Completion]]:
        """Sample every seed of every request; `on_done(responses, tokens)` is told after each batch."""
        results: list[list[Completion | None]] = [[None] * len(request.seeds) for request in requests]
        for batch in _batches(requests, self.max_rows):
            completions = _Decoding(self, [requests[i] for i, _ in batch], batch, sampling).run()
            for row, completion in completions:
                results[row.request][row.sample] = completion
            if on_done:
                on_done(len(completions), sum(len(completion.token_ids) for _, completion in completions))
        return [[completion for completion in row if completion is not None] for row in results]


def end_token_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    """Every id that ends a response: the tokenizer's, and those that the model's generation config names."""
    require_end_token(tokenizer, model.config.name_or_path or "this model")
    named = model.generation_config.eos_token_id if model.generation_config else None
    ids = {tokenizer.eos_token_id, *(named if isinstance(named, list) else [named])} - {None}
    return tuple(sorted(ids))


def _batches(requests: Sequence[Request], max_rows: int) -> list[list[tuple[int, range]]]:
    """Cut the work into batches of (request, samples), similar prompt lengths together."""
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


class _Decoding:
    """One batch from prefill to the last finished row."""

    def __init__(
        self,
        engine: TransformersEngine,
        requests: list[Request],
        batch: list[tuple[int, range]],
        sampling: Sampling,
    ) -> None:
        self.engine, self.sampling = engine, sampling
        self.device = engine.model.device
        self.requests = requests
        self.counts = torch.tensor([len(samples) for _, samples in batch], device=self.device)
        self.rows = [_Row(i, sample) for i, samples in batch for sample in samples]
        seeds = [
            request.seeds[sample]
            for request, (_, samples) in zip(requests, batch, strict=True)
            for sample in samples
        ]
        self.seeds_B = torch.tensor(seeds, device=self.device)
        self.stops = StopStrings(engine.tokenizer, sampling.stop) if sampling.stop else None
        self.end_ids = torch.tensor(engine.end_ids, device=self.device)

    def run(self) -> list[tuple[_Row, Completion]]:
        logits_B_V = self._prefill()
        size, steps = len(self.rows), self._room()
        self.ids_N_T = torch.zeros((size, steps), dtype=torch.long, device=self.device)
        self.logprobs_N_T = torch.zeros((size, steps), device=self.device)
        self.entropies_N_T = torch.zeros((size, steps), device=self.device)
        lengths_N = torch.full((size,), steps, device=self.device)
        finished_N = torch.zeros(size, dtype=torch.bool, device=self.device)
        live_B = torch.arange(size, device=self.device)
        done_B = torch.zeros(size, dtype=torch.bool, device=self.device)
        for step in range(steps):
            ids_B = self._draw(logits_B_V, live_B, step)
            ending_B = self._ending(ids_B, live_B, step) & ~done_B
            lengths_N[live_B[ending_B]] = step + 1
            finished_N[live_B[ending_B]] = True
            done_B |= ending_B
            open_count = int((~done_B).sum())
            if open_count == 0 or step == steps - 1:
                break
            if open_count < COMPACT_BELOW * len(done_B):
                keep_B = (~done_B).nonzero().squeeze(-1)
                ids_B, live_B, done_B = ids_B[keep_B], live_B[keep_B], done_B[keep_B]
                self._compact(keep_B)
            logits_B_V = self._step(ids_B)
        return self._collect(lengths_N, finished_N)

    def _room(self) -> int:
        """How many tokens can be sampled: what is asked for, within the model's context."""
        wanted, context = self.sampling.max_new_tokens, self.engine.context
        return (
            wanted
            if context is None
            else min(wanted, context - max(len(r.prompt_ids) for r in self.requests))
        )

    def _prefill(self) -> Tensor:
        """Run every prompt once, left-padded, then copy its state for each of its samples."""
        widths = [len(request.prompt_ids) for request in self.requests]
        width = max(widths)
        pad = self.engine.end_ids[0]
        ids = torch.tensor(
            [[pad] * (width - n) + list(r.prompt_ids) for r, n in zip(self.requests, widths, strict=True)]
        )
        mask = torch.tensor([[0] * (width - n) + [1] * n for n in widths])
        ids_Q_T, mask_Q_T = ids.to(self.device), mask.to(self.device)
        positions_Q_T = (mask_Q_T.cumsum(-1) - 1).clamp(min=0)
        self.cache = DynamicCache(config=self.engine.model.config)
        padded = min(widths) < width
        output = self.engine.model(
            input_ids=ids_Q_T,
            attention_mask=mask_Q_T if padded else None,
            position_ids=positions_Q_T,
            past_key_values=self.cache,
            use_cache=True,
            logits_to_keep=1,
        )
        parents_B = torch.arange(len(widths), device=self.device).repeat_interleave(self.counts)
        self.cache.batch_select_indices(parents_B)
        make_roomy(self.cache, width + min(self.sampling.max_new_tokens, 256))
        self.positions_B = positions_Q_T[parents_B, -1]
        self.mask_B_T = mask_Q_T[parents_B] if padded else None
        last_B_V: Tensor = output.logits[:, -1].float()[parents_B]
        return last_B_V

    def _draw(self, logits_B_V: Tensor, live_B: Tensor, step: int) -> Tensor:
        """Draw one token per row and note its log-probability and the entropy it was drawn from."""
        ids_B = draw(logits_B_V, uniform(self.seeds_B, step), self.sampling.temperature, self.sampling.top_p)
        logprobs_B_V = logits_B_V.log_softmax(-1)
        self.ids_N_T[live_B, step] = ids_B
        self.logprobs_N_T[live_B, step] = logprobs_B_V.gather(-1, ids_B[:, None]).squeeze(-1)
        # xlogy-like: a token of probability 0 has log-probability -inf and adds nothing
        self.entropies_N_T[live_B, step] = -(logprobs_B_V.exp() * logprobs_B_V.clamp(min=-1e4)).sum(-1)
        return ids_B

    def _ending(self, ids_B: Tensor, live_B: Tensor, step: int) -> Tensor:
        ending_B = torch.isin(ids_B, self.end_ids)
        if self.stops:
            ending_B |= self.stops.reached(self.ids_N_T, live_B, ids_B, step)
        return ending_B

    def _compact(self, keep_B: Tensor) -> None:
        self.cache.batch_select_indices(keep_B)
        self.seeds_B, self.positions_B = self.seeds_B[keep_B], self.positions_B[keep_B]
        if self.mask_B_T is not None:
            self.mask_B_T = self.mask_B_T[keep_B]

    def _step(self, ids_B: Tensor) -> Tensor:
        self.positions_B = self.positions_B + 1
        if self.mask_B_T is not None:
            self.mask_B_T = torch.nn.functional.pad(self.mask_B_T, (0, 1), value=1)
        output = self.engine.model(
            input_ids=ids_B[:, None],
            attention_mask=self.mask_B_T,
            position_ids=self.positions_B[:, None],
            past_key_values=self.cache,
            use_cache=True,
        )
        logits_B_V: Tensor = output.logits[:, -1].float()
        return logits_B_V

    def _collect(self, lengths_N: Tensor, finished_N: Tensor) -> list[tuple[_Row, Completion]]:
        columns: tuple[list[Any], ...] = (
            lengths_N.tolist(), finished_N.tolist(), self.ids_N_T.tolist(), self.logprobs_N_T.tolist(), self.entropies_N_T.tolist(),
        )  # fmt: skip
        return [
            (row, Completion(*(tuple(islice(ids, n)), done, tuple(islice(lps, n)), tuple(islice(ents, n)))))
            for row, n, done, ids, lps, ents in zip(self.rows, *columns, strict=True)
        ]
