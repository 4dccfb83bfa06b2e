"""Sample with any Hugging Face causal model, on CPU or GPU.

One prefill serves all samples of a question, and samples share every later step until they differ; rows leave the
batch when they finish; log-probabilities and entropies are taken from the logits that the sampling needs anyway. Prompts arrive as token ids: how a
question becomes a prompt is `prompts`. Does not do tensor parallelism or paged attention: that is vLLM's work.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel, PreTrainedTokenizerBase

from calibsft.models import context_length, require_end_token
from calibsft.rollouts.attention import quick_single_tokens
from calibsft.rollouts.cache import append_copies, make_roomy
from calibsft.rollouts.engine import Completion, FloatArray, Request, Sampling
from calibsft.rollouts.sampler import draw, uniform
from calibsft.rollouts.stopping import StopStrings

# Below this share of live states the batch is compacted; copying the cache for every finished one costs more.
COMPACT_BELOW = 0.8
# Tokens, padding included, of whole sequences that go through the model at once: some gigabytes with a model of 8B.
PASS_TOKENS = 32_768


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
        self.context = context_length(model)

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
            with quick_single_tokens(self.model):
                completions = _Decoding(self, [requests[i] for i, _ in batch], batch, sampling).run()
            for row, completion in completions:
                results[row.request][row.sample] = completion
            if on_done:
                on_done(len(completions), sum(len(completion.token_ids) for _, completion in completions))
        return [[completion for completion in row if completion is not None] for row in results]

    @torch.inference_mode()
    def next_logprobs(
        self,
        prompts: Sequence[tuple[int, ...]],
        ids: Sequence[int],
        on_done: Callable[[int], None] | None = None,
    ) -> FloatArray:
        """One pass over every distinct prompt; see `NextTokens`."""
        copies = Counter(prompts)
        found: dict[tuple[int, ...], FloatArray] = {}
        for batch in _passes(copies, self.max_rows):
            ids_B_T, mask_B_T, positions_B_T = _left_padded(batch, self.end_ids[0], self.model.device)
            output = self.model(
                input_ids=ids_B_T,
                attention_mask=mask_B_T,
                position_ids=positions_B_T,
                use_cache=False,
                logits_to_keep=1,
            )
            logprobs_B_V: Tensor = output.logits[:, -1].float().log_softmax(-1)
            found |= zip(batch, logprobs_B_V[:, list(ids)].cpu().numpy(), strict=True)
            if on_done:
                on_done(sum(copies[prompt] for prompt in batch))
        return np.array([found[prompt] for prompt in prompts], dtype=np.float32).reshape(-1, len(ids))


def end_token_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> tuple[int, ...]:
    """Every id that ends a response: the tokenizer's, and those that the model's generation config names."""
    require_end_token(tokenizer, model.config.name_or_path or "this model")
    named = model.generation_config.eos_token_id if model.generation_config else None
    ids = {tokenizer.eos_token_id, *(named if isinstance(named, list) else [named])} - {None}
    return tuple(sorted(ids))


def _passes(prompts: Iterable[tuple[int, ...]], max_rows: int) -> Iterator[list[tuple[int, ...]]]:
    """Prompts of similar length together, as many as `max_rows` and `PASS_TOKENS` allow, one at least."""
    batch: list[tuple[int, ...]] = []
    for prompt in sorted(prompts, key=len):
        if batch and (len(batch) == max_rows or (len(batch) + 1) * len(prompt) > PASS_TOKENS):
            yield batch
            batch = []
        batch.append(prompt)
    if batch:
        yield batch


def _left_padded(
    prompts: Sequence[tuple[int, ...]], pad: int, device: torch.device
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Ids, mask and positions of prompts that end in the same column; no mask where there is nothing to hide."""
    widths = [len(prompt) for prompt in prompts]
    width = max(widths)
    ids = [[pad] * (width - len(prompt)) + list(prompt) for prompt in prompts]
    mask_S_T = torch.tensor([[0] * (width - n) + [1] * n for n in widths], device=device)
    positions_S_T = (mask_S_T.cumsum(-1) - 1).clamp(min=0)
    return torch.tensor(ids, device=device), mask_S_T if min(widths) < width else None, positions_S_T


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
    """One batch from prefill to the last finished row.

    Rows that have drawn the same tokens so far share one state - one row of the cache, one forward pass. A state
    splits when its rows draw different tokens: the first child takes its place, the others are appended.
    """

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
        self.rows = [_Row(i, sample) for i, samples in batch for sample in samples]
        drawn = [(state, samples) for state, (_, samples) in enumerate(batch)]
        seeds = [requests[state].seeds[sample] for state, samples in drawn for sample in samples]
        self.seeds_B = torch.tensor(seeds, device=self.device)
        self.state_B = torch.tensor([state for state, samples in drawn for _ in samples], device=self.device)
        self.stops = StopStrings(engine.tokenizer, sampling.stop) if sampling.stop else None
        self.end_ids = torch.tensor(engine.end_ids, device=self.device)

    def run(self) -> list[tuple[_Row, Completion]]:
        size, steps = len(self.rows), self._room()
        self.ids_N_T = torch.zeros((size, steps), dtype=torch.long, device=self.device)
        self.logprobs_N_T = torch.zeros((size, steps), device=self.device)
        self.entropies_N_T = torch.zeros((size, steps), device=self.device)
        lengths_N = torch.full((size,), steps, device=self.device)
        finished_N = torch.zeros(size, dtype=torch.bool, device=self.device)
        live_B = torch.arange(size, device=self.device)
        logits_S_V = self._prefill()
        for step in range(steps):
            ids_B = self._draw(logits_S_V, live_B, step)
            ending_B = self._ending(ids_B, live_B, step)
            lengths_N[live_B[ending_B]] = step + 1
            finished_N[live_B[ending_B]] = True
            open_B = ~ending_B
            live_B, ids_B = live_B[open_B], ids_B[open_B]
            self.seeds_B, self.state_B = self.seeds_B[open_B], self.state_B[open_B]
            if len(live_B) == 0 or step == steps - 1:
                break
            logits_S_V = self._step(self._split(ids_B, logits_S_V.shape[-1]))
        return self._collect(lengths_N, finished_N)

    def _room(self) -> int:
        """How many tokens can be sampled: what is asked for, within the model's context."""
        wanted, context = self.sampling.max_new_tokens, self.engine.context
        longest = max(len(request.prompt_ids) for request in self.requests)
        return wanted if context is None else min(wanted, context - longest)

    def _prefill(self) -> Tensor:
        """Run every prompt once, left-padded."""
        prompts = [request.prompt_ids for request in self.requests]
        ids_S_T, self.mask_S_T, positions_S_T = _left_padded(prompts, self.engine.end_ids[0], self.device)
        self.positions_S = positions_S_T[:, -1]
        self.cache = DynamicCache(config=self.engine.model.config)
        output = self.engine.model(
            input_ids=ids_S_T,
            attention_mask=self.mask_S_T,
            position_ids=positions_S_T,
            past_key_values=self.cache,
            use_cache=True,
            logits_to_keep=1,
        )
        make_roomy(self.cache, len(self.rows), ids_S_T.shape[1] + min(self.sampling.max_new_tokens, 256))
        logits_S_V: Tensor = output.logits[:, -1].float()
        return logits_S_V

    def _draw(self, logits_S_V: Tensor, live_B: Tensor, step: int) -> Tensor:
        """Draw one token per row and note its log-probability and the entropy it was drawn from."""
        uniform_B = uniform(self.seeds_B, step)
        ids_B = draw(logits_S_V, self.state_B, uniform_B, self.sampling.temperature, self.sampling.top_p)
        logprobs_S_V = logits_S_V.log_softmax(-1)
        # a token of probability 0 has log-probability -inf and adds nothing
        entropies_S = -(logprobs_S_V.exp() * logprobs_S_V.clamp(min=-1e4)).sum(-1)
        self.ids_N_T[live_B, step] = ids_B
        self.logprobs_N_T[live_B, step] = logprobs_S_V[self.state_B, ids_B]
        self.entropies_N_T[live_B, step] = entropies_S[self.state_B]
        return ids_B

    def _ending(self, ids_B: Tensor, live_B: Tensor, step: int) -> Tensor:
        ending_B = torch.isin(ids_B, self.end_ids)
        if self.stops:
            ending_B |= self.stops.reached(self.ids_N_T, live_B, ids_B, step)
        return ending_B

    def _split(self, ids_B: Tensor, vocabulary: int) -> Tensor:
        """Give every distinct continuation a state of its own; returns the next token of each state."""
        pairs_C: Tensor
        pairs_C, self.state_B = torch.unique(self.state_B * vocabulary + ids_B, return_inverse=True)
        parents_C, ids_C = pairs_C // vocabulary, pairs_C % vocabulary
        states = len(self.positions_S)
        if len(pairs_C) < COMPACT_BELOW * states:
            self._select(parents_C)
            return ids_C
        # pairs are sorted by parent: the first child of a parent takes its place
        first_C = torch.ones_like(parents_C, dtype=torch.bool)
        first_C[1:] = parents_C[1:] != parents_C[:-1]
        slots_C = torch.where(first_C, parents_C, states - 1 + (~first_C).cumsum(0))
        if len(new_C := parents_C[~first_C]):
            append_copies(self.cache, new_C, states)
            self.positions_S = torch.cat([self.positions_S, self.positions_S[new_C]])
            if self.mask_S_T is not None:
                self.mask_S_T = torch.cat([self.mask_S_T, self.mask_S_T[new_C]])
        self.state_B = slots_C[self.state_B]
        # a state whose rows have all finished goes on with any token until the next compaction
        ids_S = torch.zeros(len(self.positions_S), dtype=torch.long, device=self.device)
        ids_S[slots_C] = ids_C
        return ids_S

    def _select(self, states_S: Tensor) -> None:
        self.cache.batch_select_indices(states_S)
        self.positions_S = self.positions_S[states_S]
        if self.mask_S_T is not None:
            self.mask_S_T = self.mask_S_T[states_S]

    def _step(self, ids_S: Tensor) -> Tensor:
        self.positions_S = self.positions_S + 1
        if self.mask_S_T is not None:
            self.mask_S_T = torch.nn.functional.pad(self.mask_S_T, (0, 1), value=1)
        output = self.engine.model(
            input_ids=ids_S[:, None],
            attention_mask=self.mask_S_T,
            position_ids=self.positions_S[:, None],
            past_key_values=self.cache,
            use_cache=True,
        )
        logits_S_V: Tensor = output.logits[:, -1].float()
        return logits_S_V

    def _collect(self, lengths_N: Tensor, finished_N: Tensor) -> list[tuple[_Row, Completion]]:
        longest = int(lengths_N.max())
        ids_N_T = self.ids_N_T[:, :longest].tolist()
        logprobs_N_T = self.logprobs_N_T[:, :longest].cpu().numpy()
        entropies_N_T = self.entropies_N_T[:, :longest].cpu().numpy()
        sizes = zip(lengths_N.tolist(), finished_N.tolist(), strict=True)
        return [
            (row, Completion(tuple(ids_N_T[i][:n]), done, logprobs_N_T[i, :n], entropies_N_T[i, :n]))
            for i, (row, (n, done)) in enumerate(zip(self.rows, sizes, strict=True))
        ]
