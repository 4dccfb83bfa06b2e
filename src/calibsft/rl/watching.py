"""What can be seen of a step while it trains: how far sampler and trainer are apart, and which tokens get the gradient.

Both come from log-probabilities that the loss computes anyway. The gap is measured before the step's first update; after that
the policy has moved. Changes nothing.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from calibsft.rl.settings import MethodSettings

TOKENS, GAP, KL, CLIPPED, ANSWER, CONFIDENCE = range(6)


class StepWatch:
    """Adds up the tokens of one rollout step, on one process."""

    def __init__(self, settings: MethodSettings) -> None:
        self._low, self._high, self._bound = settings.clip_low, settings.clip_high, settings.dual_clip
        self.sums = torch.zeros(6, dtype=torch.float64)

    def add(self, batch: Mapping[str, Tensor], newest_B_T: Tensor, first_update: bool) -> None:
        """Count one micro-batch; `newest_B_T` are the trainer's log-probabilities of its tokens."""
        mask_B_T = batch["completion_mask"].bool()
        old_B_T = batch["old_per_token_logps"]
        if first_update:
            fresh_B_T = mask_B_T & ~batch["stale"][:, None]  # since older responses are of other weights
            self._add_gap((newest_B_T - batch.get("sampler_logps", old_B_T))[fresh_B_T].double())
        advantages = batch["advantages"][mask_B_T].double()
        confidence = batch["confidence_mask"][mask_B_T]
        ratio = (newest_B_T - old_B_T)[mask_B_T].double().exp()
        pull = advantages.abs() * self._bounded(ratio, advantages)
        self._sum(ANSWER, pull[~confidence])
        self._sum(CONFIDENCE, pull[confidence])

    def _add_gap(self, change: Tensor) -> None:
        ratio = change.exp()
        outside = (ratio < 1 - self._low) | (ratio > 1 + self._high)
        self._sum(TOKENS, torch.ones_like(ratio))
        self._sum(GAP, change.abs())
        self._sum(KL, ratio - 1 - change)
        self._sum(CLIPPED, outside.double())

    def _bounded(self, ratio: Tensor, advantages: Tensor) -> Tensor:
        """The ratio where the loss has a gradient, 0 where it is clipped."""
        clipped = torch.where(advantages > 0, ratio > 1 + self._high, ratio < 1 - self._low)
        if self._bound is not None:
            clipped |= (advantages < 0) & (ratio > self._bound)
        return ratio.masked_fill(clipped, 0)

    def _sum(self, place: int, values: Tensor) -> None:
        self.sums[place] += values.sum().cpu()


def watched(sums: Tensor) -> dict[str, float]:
    """The figures of a step, from the sums of all processes."""
    total = sums.tolist()
    tokens, stated = max(total[TOKENS], 1), total[CONFIDENCE]
    # Methods with one reward for the whole response do not distinguish its segments. The segments are summed separately: a
    # sum over all tokens rounds differently, and the share could exceed 1.
    shares = {"gradient/confidence": stated / (total[ANSWER] + stated)} if stated else {}
    return {
        "sampler/gap": total[GAP] / tokens,
        "sampler/kl": total[KL] / tokens,
        "sampler/clipped": total[CLIPPED] / tokens,
        **shares,
    }
