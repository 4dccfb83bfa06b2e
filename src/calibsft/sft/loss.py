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
class Shares:
    """The share of each response in the global batch: among correct responses, among all, and of each segment in tokens."""

    correct_B: Tensor
    all_B: Tensor
    reasoning_B: Tensor
    confidence_B: Tensor


# From the shares and beta to the weights of each response's reasoning segment and confidence segment. The tokens of a
# segment share its weight equally.
Variant = Callable[[Shares, float], tuple[Tensor, Tensor]]

VARIANTS: dict[str, Variant] = {
    "calibsft": lambda share, beta: ((1 - beta) * share.correct_B, beta * share.all_B),
    "confidence-only": lambda share, beta: (torch.zeros_like(share.all_B), share.all_B),
    "full-ce": lambda share, beta: (share.reasoning_B, share.confidence_B),
    "full-balanced": lambda share, beta: ((1 - beta) * share.all_B, beta * share.all_B),
    "correct-only": lambda share, beta: ((1 - beta) * share.correct_B, beta * share.correct_B),
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
    # A global batch may have no correct response; none has a share then.
    share_of_correct_B = correct_B.float() / max(counts.correct, 1)
    share_of_all_B = torch.ones_like(share_of_correct_B) / counts.responses
    shares = Shares(share_of_correct_B, share_of_all_B, n_ra_B / counts.tokens, n_c_B / counts.tokens)
    weigh_ra_B, weigh_c_B = VARIANTS[variant](shares, beta)
    # A response may have no reasoning tokens; its segment then has no weight.
    per_ra_B, per_c_B = weigh_ra_B / n_ra_B.clamp(min=1), weigh_c_B / n_c_B.clamp(min=1)
    return reasoning_B_T * per_ra_B[:, None] + confidence_B_T * per_c_B[:, None]


def token_losses(logits_N_V: Tensor, ids_N: Tensor) -> Tensor:
    """Cross-entropy of each token, in float32 for any dtype of the model."""
    return cross_entropy(logits_N_V.float(), ids_N, reduction="none")
