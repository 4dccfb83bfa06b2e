"""CalibSFT's loss for verl's engines: the weighted sum of token losses.

The weights come with the data and follow from the global batch, so micro-batches and ranks do not change the value.
"""

from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor


def weighted_loss(
    model_output: dict[str, Tensor], data: TensorDict, dp_group: Any = None
) -> tuple[Tensor, dict[str, Any]]:
    """This micro-batch's part of the loss.

    The log-probability at a place is that of the next token. Sequences stand one after another; each begins with a prompt
    token, whose weight is 0, so that moving the weights by one place mixes no two of them.
    """
    logprobs_N = model_output["log_probs"].values()
    weights_N = torch.roll(data["weights"].values(), shifts=-1, dims=0)
    # Gradients are averaged over ranks, but this rank's part of the sum must count fully.
    return -(logprobs_N * weights_N).sum() * data["dp_size"], {}
