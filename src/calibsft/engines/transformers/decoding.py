"""Decode one batch, from the prefill to the last finished row.

All samples of a question share one prefill, and every later step until they differ. Rows leave the batch when they finish.
Does not choose the requests of a batch: that is `batches`.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from transformers import DynamicCache

from calibsft.engines.engine import Completion, Request, Sampling
from calibsft.engines.transformers.batches import last_logits, left_padded
from calibsft.engines.transformers.cache import append_copies, make_roomy
from calibsft.engines.transformers.sampler import draw, uniform
from calibsft.engines.transformers.stopping import StopStrings

if TYPE_CHECKING:
    from calibsft.engines.transformers.engine import TransformersEngine

# Below this share of live states the batch is compacted; copying the cache after every finished row would cost more.
COMPACT_BELOW = 0.8


class Decoding:
    """One batch from prefill to the last finished row.

    Rows with the same tokens so far share one state: one row of the cache, one forward pass. A state splits when its rows
    draw different tokens: the first child takes its place, the others are appended.
    """

    def __init__(
        self,
        engine: "TransformersEngine",
        requests: list[Request],
        batch: list[tuple[int, range]],
        sampling: Sampling,
    ) -> None:
        self.engine, self.sampling = engine, sampling
        self.device = engine.model.device
        self.requests = requests
        self.rows = [(i, sample) for i, samples in batch for sample in samples]
        drawn = [(state, samples) for state, (_, samples) in enumerate(batch)]
        seeds = [requests[state].seeds[sample] for state, samples in drawn for sample in samples]
        self.seeds_B = torch.tensor(seeds, device=self.device)
        self.state_B = torch.tensor([state for state, samples in drawn for _ in samples], device=self.device)
        self.stops = StopStrings(engine.tokenizer, sampling.stop) if sampling.stop else None
        self.end_ids = torch.tensor(engine.end_ids, device=self.device)

    def run(self) -> list[tuple[tuple[int, int], Completion]]:
        """The completions with the numbers of their request and sample."""
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
        """How many tokens can be sampled: the requested number, limited by the model's context."""
        wanted, context = self.sampling.max_new_tokens, self.engine.context
        longest = max(len(request.prompt_ids) for request in self.requests)
        return wanted if context is None else min(wanted, context - longest)

    def _prefill(self) -> Tensor:
        """Run every prompt once, left-padded."""
        prompts = [request.prompt_ids for request in self.requests]
        ids_S_T, self.mask_S_T, positions_S_T = left_padded(prompts, self.engine.end_ids[0], self.device)
        self.positions_S = positions_S_T[:, -1]
        self.cache = DynamicCache(config=self.engine.model.config)
        logits_S_V = last_logits(self.engine.model, ids_S_T, self.mask_S_T, positions_S_T, self.cache)
        make_roomy(self.cache, len(self.rows), ids_S_T.shape[1] + min(self.sampling.max_new_tokens, 256))
        return logits_S_V

    def _draw(self, logits_S_V: Tensor, live_B: Tensor, step: int) -> Tensor:
        """Draw one token per row, and record its log-probability and the entropy of its distribution."""
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
        """Give every distinct continuation its own state; returns the next token of each state."""
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
        # a state whose rows have all finished continues with any token until the next compaction
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
        positions_S_T = self.positions_S[:, None]
        return last_logits(self.engine.model, ids_S[:, None], self.mask_S_T, positions_S_T, self.cache)

    def _collect(self, lengths_N: Tensor, finished_N: Tensor) -> list[tuple[tuple[int, int], Completion]]:
        longest = int(lengths_N.max())
        ids_N_T = self.ids_N_T[:, :longest].tolist()
        logprobs_N_T = self.logprobs_N_T[:, :longest].cpu().numpy()
        entropies_N_T = self.entropies_N_T[:, :longest].cpu().numpy()
        sizes = zip(lengths_N.tolist(), finished_N.tolist(), strict=True)
        return [
            (row, Completion(tuple(ids_N_T[i][:n]), done, logprobs_N_T[i, :n], entropies_N_T[i, :n]))
            for i, (row, (n, done)) in enumerate(zip(self.rows, sizes, strict=True))
        ]
