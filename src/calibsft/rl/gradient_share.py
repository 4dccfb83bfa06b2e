"""How the first gradient of RL divides over confidence values: Proposition 1, measured.

Samples groups from the starting model, gives them the method's advantages, and takes the gradient of the loss with
respect to all weights for the responses that state each value, on their confidence tokens alone. A value that was
never sampled has no gradient at all. Costs one pass over the responses; does not train.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from calibsft.recipe import RlSettings
from calibsft.rl.advantages import advantages_of
from calibsft.rl.batches import rewards_of
from calibsft.rl.method import Method
from calibsft.rl.scoring import Response, ScoredGroup

GRADIENT = "gradient.json"


@dataclass(frozen=True, slots=True)
class _Statement:
    """One well-formed response and the advantage of its confidence tokens."""

    prompt_ids: tuple[int, ...]
    response: Response
    advantage: float


def gradient_shares(
    model: PreTrainedModel,
    groups: Sequence[ScoredGroup],
    method: Method,
    settings: RlSettings,
    grid: int,
) -> dict[str, Any]:
    """Shares of responses and of gradient by stated value, as plain data.

    Parameters
    ----------
    groups
        Scored with the tokens of the confidence tag marked.
    grid
        How many values the format can express.
    """
    stated = _by_value(groups, method, settings)
    norms = {value: _gradient_norm(model, rows, settings) for value, rows in stated.items()}
    responses, total = sum(map(len, stated.values())), sum(norms.values())
    values = [
        {
            "confidence": value,
            "response_share": len(stated[value]) / responses,
            "gradient_share": norms[value] / total if total else 0.0,
        }
        for value in sorted(stated)
    ]
    return {"responses": responses, "grid": grid, "values": values}


def _by_value(
    groups: Sequence[ScoredGroup], method: Method, settings: RlSettings
) -> dict[float, list[_Statement]]:
    stated: dict[float, list[_Statement]] = defaultdict(list)
    for scored in groups:
        group = scored.group
        advantages_G = advantages_of(group, method, rewards_of(scored, method, settings)).confidence_G
        for i in np.flatnonzero(group.well_formed_G):
            statement = _Statement(scored.prompt_ids, scored.responses[i], float(advantages_G[i]))
            stated[float(group.confidence_G[i])].append(statement)
    return dict(stated)


def _gradient_norm(model: PreTrainedModel, rows: Sequence[_Statement], settings: RlSettings) -> float:
    """The length of Σ advantage · ∇ log-probability over the confidence tokens of `rows`."""
    model.zero_grad(set_to_none=True)
    for start in range(0, len(rows), settings.micro_batch_size):
        (-_weighted_logprob(model, rows[start : start + settings.micro_batch_size])).backward()  # type: ignore[no-untyped-call]
    norms = [parameter.grad.norm() for parameter in model.parameters() if parameter.grad is not None]
    model.zero_grad(set_to_none=True)
    return float(torch.stack(norms).norm()) if norms else 0.0


def _weighted_logprob(model: PreTrainedModel, rows: Sequence[_Statement]) -> Tensor:
    ids = [torch.tensor(row.prompt_ids + row.response.token_ids) for row in rows]
    weights = [
        torch.from_numpy(np.pad(row.advantage * row.response.confidence_T, (len(row.prompt_ids), 0)))
        for row in rows
    ]
    ids_B_T = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True).to(model.device)
    weights_B_T = torch.nn.utils.rnn.pad_sequence(weights, batch_first=True).to(ids_B_T.device)
    mask_B_T = torch.nn.utils.rnn.pad_sequence([torch.ones_like(part) for part in ids], batch_first=True)
    logits_B_T_V = model(input_ids=ids_B_T, attention_mask=mask_B_T.to(model.device), use_cache=False).logits
    logprobs_B_T_V = logits_B_T_V[:, :-1].float().log_softmax(-1)
    logprobs_B_T = logprobs_B_T_V.gather(-1, ids_B_T[:, 1:, None]).squeeze(-1)
    weighted: Tensor = (weights_B_T[:, 1:] * logprobs_B_T).sum()
    return weighted
