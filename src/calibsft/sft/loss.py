"""The CalibSFT objective and its ablation variants, as a weight for every supervised token.

L = (1-beta) * mean over correct responses [mean CE over reasoning and answer]
  +    beta  * mean over all responses     [mean CE over confidence]

Both outer means are over the global batch. Written as a weighted sum of token losses, the value cannot depend
on how the batch is cut into micro-batches or ranks: every weight follows from the global counts alone.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

NONE, REASONING, CONFIDENCE = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Counts:
    """What a global batch holds: correct responses, all responses, and all their tokens."""

    correct: float
    responses: float
    tokens: float


# A variant says how much one response's reasoning segment and confidence segment weigh, each spread evenly
# over the segment's tokens: (is correct, tokens of the two segments, counts, beta) -> two weights, per response.
Variant = Callable[[Tensor, Tensor, Tensor, Counts, float], tuple[Tensor, Tensor]]


def _share(wanted_B: Tensor, count: float) -> Tensor:
    """An equal share of 1 for each wanted response; nothing when the batch has none."""
    return wanted_B / count if count else torch.zeros_like(wanted_B)


def _calibsft(
    correct_B: Tensor, n_ra_B: Tensor, n_c_B: Tensor, counts: Counts, beta: float
) -> tuple[Tensor, Tensor]:
    return (1 - beta) * _share(correct_B, counts.correct), beta * _share(
        torch.ones_like(correct_B), counts.responses
    )


def _confidence_only(
    correct_B: Tensor, n_ra_B: Tensor, n_c_B: Tensor, counts: Counts, beta: float
) -> tuple[Tensor, Tensor]:
    return torch.zeros_like(correct_B), _share(torch.ones_like(correct_B), counts.responses)


def _full_ce(
    correct_B: Tensor, n_ra_B: Tensor, n_c_B: Tensor, counts: Counts, beta: float
) -> tuple[Tensor, Tensor]:
    return n_ra_B / counts.tokens, n_c_B / counts.tokens


def _full_balanced(
    correct_B: Tensor, n_ra_B: Tensor, n_c_B: Tensor, counts: Counts, beta: float
) -> tuple[Tensor, Tensor]:
    share_B = _share(torch.ones_like(correct_B), counts.responses)
    return (1 - beta) * share_B, beta * share_B


def _correct_only(
    correct_B: Tensor, n_ra_B: Tensor, n_c_B: Tensor, counts: Counts, beta: float
) -> tuple[Tensor, Tensor]:
    share_B = _share(correct_B, counts.correct)
    return (1 - beta) * share_B, beta * share_B


VARIANTS: dict[str, Variant] = {
    "calibsft": _calibsft,
    "confidence-only": _confidence_only,
    "full-ce": _full_ce,
    "full-balanced": _full_balanced,
    "correct-only": _correct_only,
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
        Of the global batch that this micro-batch belongs to.
    """
    reasoning_B_T, confidence_B_T = (segments_B_T == kind for kind in (REASONING, CONFIDENCE))
    n_ra_B, n_c_B = reasoning_B_T.sum(-1).float(), confidence_B_T.sum(-1).float()
    weigh_ra_B, weigh_c_B = VARIANTS[variant](correct_B.float(), n_ra_B, n_c_B, counts, beta)
    # a response may lack reasoning tokens; its segment then weighs nothing
    per_ra_B, per_c_B = weigh_ra_B / n_ra_B.clamp(min=1), weigh_c_B / n_c_B.clamp(min=1)
    return reasoning_B_T * per_ra_B[:, None] + confidence_B_T * per_c_B[:, None]


def token_losses(logits_N_V: Tensor, ids_N: Tensor) -> Tensor:
    """Cross-entropy of each token, in float32 whatever the model computes in."""
    return cross_entropy(logits_N_V.float(), ids_N, reduction="none")
