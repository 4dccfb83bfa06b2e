"""The CalibSFT objective and its ablation variants, as a weight for every supervised token.

L = (1-beta) * mean over correct responses [mean CE over reasoning and answer]
  +    beta  * mean over all responses     [mean CE over confidence]

Both outer means are over the global batch. The loss is a weighted sum of token losses, and every weight follows from the
global counts alone. So its value does not depend on micro-batches or ranks.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

NONE, REASONING, CONFIDENCE = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of correct responses, of all responses, and of all their tokens in a global batch."""

    correct: float
    responses: float
    tokens: float


@dataclass(frozen=True, slots=True)
class Batch:
    """The responses of a micro-batch: which are correct, how many tokens their two segments have, the global counts."""

    correct_B: Tensor
    n_reasoning_B: Tensor
    n_confidence_B: Tensor
    counts: Counts

    @property
    def share_of_correct_B(self) -> Tensor:
        """An equal share of 1 for each correct response of the global batch; zeros if it has none."""
        return (
            self.correct_B / self.counts.correct if self.counts.correct else torch.zeros_like(self.correct_B)
        )

    @property
    def share_of_all_B(self) -> Tensor:
        """An equal share of 1 for each response of the global batch."""
        return torch.ones_like(self.correct_B) / self.counts.responses


# From a batch and beta to the weights of each response's reasoning segment and confidence segment. The tokens of a segment
# share its weight equally.
Variant = Callable[[Batch, float], tuple[Tensor, Tensor]]

VARIANTS: dict[str, Variant] = {
    "calibsft": lambda batch, beta: ((1 - beta) * batch.share_of_correct_B, beta * batch.share_of_all_B),
    "confidence-only": lambda batch, beta: (torch.zeros_like(batch.correct_B), batch.share_of_all_B),
    "full-ce": lambda batch, beta: (
        batch.n_reasoning_B / batch.counts.tokens,
        batch.n_confidence_B / batch.counts.tokens,
    ),
    "full-balanced": lambda batch, beta: ((1 - beta) * batch.share_of_all_B, beta * batch.share_of_all_B),
    "correct-only": lambda batch, beta: (
        (1 - beta) * batch.share_of_correct_B,
        beta * batch.share_of_correct_B,
    ),
}


def token_weights(
    variant: str, segments_B_T: Tensor, correct_B: Tensor, counts: Counts, beta: float
) -> Tensor:
    """The weight of every token in the loss.

    Parameters
    ----------
    segments_B_T
        NONE for prompt and padding, REASONING for reasoning and answer, CONFIDENCE for confidence.
    correct_B
        Whether each response is correct.
    counts
        The counts of the global batch of this micro-batch.
    """
    reasoning_B_T, confidence_B_T = (segments_B_T == kind for kind in (REASONING, CONFIDENCE))
    n_ra_B, n_c_B = reasoning_B_T.sum(-1).float(), confidence_B_T.sum(-1).float()
    weigh_ra_B, weigh_c_B = VARIANTS[variant](Batch(correct_B.float(), n_ra_B, n_c_B, counts), beta)
    # A response may have no reasoning tokens; its segment then has no weight.
    per_ra_B, per_c_B = weigh_ra_B / n_ra_B.clamp(min=1), weigh_c_B / n_c_B.clamp(min=1)
    return reasoning_B_T * per_ra_B[:, None] + confidence_B_T * per_c_B[:, None]


def token_losses(logits_N_V: Tensor, ids_N: Tensor) -> Tensor:
    """Cross-entropy of each token, in float32 for any dtype of the model."""
    return cross_entropy(logits_N_V.float(), ids_N, reduction="none")
