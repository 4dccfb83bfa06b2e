"""The metrics of one rollout step: calibration, exploration, rewards and malformed responses.

Computed on all generated responses, even of dropped groups, so that the figures describe the policy and not the filter.
Unreadable confidences count as 0, as in the evaluation. Holds no state and writes nothing.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from calibsft.metrics import ConfidenceTable
from calibsft.metrics.registry import TABLE_METRICS, shown_in
from calibsft.rl.batches import rewards_of
from calibsft.rl.method import Method
from calibsft.rl.scoring import ScoredGroup
from calibsft.rl.settings import MethodSettings

COLLAPSED_ABOVE = 0.9


@dataclass(frozen=True, slots=True)
class StepRecord:
    """What the step's metrics need from one group; small, because processes exchange it."""

    correct: tuple[bool, ...]
    confidence: tuple[float | None, ...]
    reasons: tuple[str, ...]
    entropies: tuple[float | None, ...]
    lengths: tuple[int, ...]
    reward_answer: float | None
    reward_confidence: float | None


def step_record(scored: ScoredGroup, method: Method, settings: MethodSettings) -> StepRecord:
    rewards = rewards_of(scored, method, settings)
    return StepRecord(
        correct=tuple(scored.group.correct_G.tolist()),
        confidence=tuple(None if np.isnan(c) else float(c) for c in scored.group.confidence_G),
        reasons=tuple(response.reason for response in scored.responses),
        entropies=tuple(response.entropy for response in scored.responses),
        lengths=tuple(len(response.token_ids) for response in scored.responses),
        reward_answer=None if rewards.answer_G is None else float(rewards.answer_G.mean()),
        reward_confidence=None if rewards.confidence_G is None else float(rewards.confidence_G.mean()),
    )


def step_metrics(groups: Sequence[StepRecord]) -> dict[str, float]:
    """The step's figures by name, without undefined ones such as the AUROC if all responses are right."""
    responses = [
        row for group in groups for row in zip(group.correct, group.confidence, group.reasons, strict=True)
    ]
    correct, confidences, reasons = zip(*responses, strict=True)
    table = ConfidenceTable.from_rows(np.array([c or 0.0 for c in confidences]), np.array(correct))
    counts = Counter(reasons).items()
    malformed = {reason: count / len(responses) for reason, count in counts if reason != "ok"}
    shown = [metric.name for metric in shown_in("terminal")]
    metrics = {name: TABLE_METRICS[name](table) for name in shown if name in TABLE_METRICS}
    found: dict[str, float | None] = {
        **metrics,
        "mean_confidence": _mean(confidences),
        "distinct_values": fmean(len({c for c in group.confidence if c is not None}) for group in groups),
        "confidence_entropy": _mean([e for group in groups for e in group.entropies]),
        # Errors from which RL can learn to be unsure: it sampled a low confidence for them.
        "wrong_below_half": _mean([float((c or 0.0) < 0.5) for z, c, _ in responses if not z]),
        "malformed": sum(malformed.values()),
        "unreadable": fmean(c is None for c in confidences),
        "response_tokens": fmean(n for group in groups for n in group.lengths),
        "reward/format": 1 - sum(malformed.values()),
        "reward/correct": fmean(z and reason == "ok" for z, _, reason in responses),
        "reward/brier": fmean((reason == "ok") * (1 - ((c or 0.0) - z) ** 2) for z, c, reason in responses),
        "reward_answer": _mean([group.reward_answer for group in groups]),
        "reward_confidence": _mean([group.reward_confidence for group in groups]),
        **{f"malformed/{reason}": share for reason, share in malformed.items()},
    }
    return {name: float(value) for name, value in found.items() if value is not None}


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
