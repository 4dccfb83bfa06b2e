"""What RL can learn from a confidence prior: the expected gradient of each value with respect to the weights.

Proposition 1: let π_i be the probability of stating value i, and u_i its expected reward. The gradient of the expected
reward J with respect to the value's logit is π_i(u_i − J), so a value that is rarely stated hardly learns. Here every value
of the format is tried after real responses: π_i comes from the model, and u_i = −(c_i − z)². Value i contributes the norm of
Σ π_i(u_i − J)·∇log π_i over these responses. Samples nothing and trains nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from calibsft.artifacts import QUESTIONS, shards
from calibsft.errors import InputError
from calibsft.evaluation import ROWS
from calibsft.prior.gradient import logit_gradient
from calibsft.progress import Progress
from calibsft.responses.formats import Format
from calibsft.responses.parse import parse, replace_confidence
from calibsft.responses.prompts import Prompting
from calibsft.schema import KEYS, QUESTION_KEYS
from calibsft.sft.batches import collate
from calibsft.sft.encode import Encoder, Example
from calibsft.sft.head import losses_at
from calibsft.sft.loss import CONFIDENCE

ROWS_AT_ONCE = 512


@dataclass(frozen=True, slots=True)
class Context:
    """One response with every confidence that it could state: `ways[i]` states `values[i]`."""

    correct: bool
    values: tuple[float, ...]
    ways: tuple[Example, ...]


def read_contexts(
    evaluation: Path, count: int, tokenizer: PreTrainedTokenizerBase, prompting: Prompting
) -> list[Context]:
    """`count` well-formed responses, spread evenly over those of an evaluation."""
    kept = pl.scan_parquet(evaluation / ROWS).filter("well_formed").drop_nulls("correct")
    keys = kept.select(KEYS).sort(KEYS).collect()
    if keys.is_empty():
        raise InputError(f"{evaluation}: no response is well formed, so no confidence can be measured")
    keys = keys[np.linspace(0, len(keys) - 1, min(count, len(keys))).round().astype(int)]
    rows = _rows_of(kept.select(*KEYS, "response", "correct"), keys)
    sampled = _rows_of(pl.scan_parquet(shards(evaluation / "rollouts")).select(*KEYS, "token_ids"), keys)
    asked = pl.read_parquet(evaluation / "rollouts" / QUESTIONS).select(*QUESTION_KEYS, "question")
    rows = rows.join(sampled, on=KEYS, maintain_order="left").join(
        asked, on=QUESTION_KEYS, maintain_order="left"
    )
    encoder = Encoder(tokenizer, prompting.format)
    texts = rows.select("question", "response", "token_ids", "correct").iter_rows()
    return [
        _context(prompting.ids(tokenizer, question), text, ids, correct, encoder, prompting.format)
        for question, text, ids, correct in texts
    ]


def _rows_of(table: pl.LazyFrame, keys: pl.DataFrame) -> pl.DataFrame:
    """The rows with these keys, in their order; what other questions were answered is not decoded."""
    near = table.filter(pl.col("question_id").is_in(keys["question_id"].implode()))
    return keys.lazy().join(near, on=KEYS, maintain_order="left").collect(engine="streaming")


def _context(
    prompt: tuple[int, ...],
    text: str,
    ids: Sequence[int],
    correct: bool,
    encoder: Encoder,
    confidence_format: Format,
) -> Context:
    parsed = parse(text, confidence_format)
    stated = {word: confidence_format.value_of(word) for word in confidence_format.words}
    ways = [encoder.encode(prompt, replace_confidence(text, parsed, word), ids, correct) for word in stated]
    return Context(correct, tuple(map(float, stated.values())), tuple(ways))


def gradient_shares(
    model: PreTrainedModel, contexts: Sequence[Context], progress: Progress | None = None
) -> dict[str, Any]:
    """Each value's probability and share of the gradient, as plain data; values in ascending order."""
    logits_N_V = _value_logits(model, contexts)
    probability_N_V = np.exp(logits_N_V - np.logaddexp.reduce(logits_N_V, axis=1, keepdims=True))
    weights_N_V = reward_gradient(probability_N_V, contexts)
    values = contexts[0].values
    norms = []
    for i in range(len(values)):
        norms.append(_gradient_norm(model, [context.ways[i] for context in contexts], weights_N_V[:, i]))
        if progress:
            progress.advance(1)
    total = sum(norms)
    rows = [
        {"confidence": value, "probability": float(share), "gradient_share": norm / total if total else 0.0}
        for value, share, norm in zip(values, probability_N_V.mean(axis=0), norms, strict=True)
    ]
    return {"contexts": len(contexts), "values": sorted(rows, key=lambda row: row["confidence"])}


def reward_gradient(probability_N_V: NDArray[np.float64], contexts: Sequence[Context]) -> NDArray[np.float64]:
    """∂J/∂η of Proposition 1 for every response and value: π_i(u_i − J)."""
    correct_N = np.array([context.correct for context in contexts], dtype=float)
    reward_N_V = -((np.array(contexts[0].values)[None] - correct_N[:, None]) ** 2)
    return logit_gradient(probability_N_V, reward_N_V)


@torch.no_grad()
def _value_logits(model: PreTrainedModel, contexts: Sequence[Context]) -> NDArray[np.float64]:
    """The log-probability of each value after each response, up to a constant per response."""
    ways = [way for context in contexts for way in context.ways]
    parts = [
        _logprobs(model, ways[i : i + ROWS_AT_ONCE]).double().cpu() for i in range(0, len(ways), ROWS_AT_ONCE)
    ]
    return torch.cat(parts).reshape(len(contexts), -1).numpy()


def _gradient_norm(model: PreTrainedModel, ways: Sequence[Example], weights: NDArray[np.float64]) -> float:
    """The norm of the weighted sum of ∇log-probability over the ways of stating one value."""
    model.zero_grad(set_to_none=True)
    for i in range(0, len(ways), ROWS_AT_ONCE):
        logprobs = _logprobs(model, ways[i : i + ROWS_AT_ONCE])
        weigh = torch.from_numpy(weights[i : i + ROWS_AT_ONCE]).to(logprobs)
        (weigh * logprobs).sum().backward()  # type: ignore[no-untyped-call]
    norms = [parameter.grad.norm() for parameter in model.parameters() if parameter.grad is not None]
    model.zero_grad(set_to_none=True)
    return float(torch.stack(norms).norm())


def _logprobs(model: PreTrainedModel, ways: Sequence[Example]) -> Tensor:
    """The log-probability of the confidence part of each example, given what comes before it."""
    batch = {name: tensor.to(model.device) for name, tensor in collate(ways).items()}
    head, marked_B_T = model.get_output_embeddings(), batch["segments"] == CONFIDENCE
    losses_N, predicted_B_T = losses_at(model, head, batch, marked_B_T)
    rows_N = predicted_B_T.nonzero()[:, 0]
    return torch.zeros(len(ways), device=model.device).index_add(0, rows_N, -losses_N)
