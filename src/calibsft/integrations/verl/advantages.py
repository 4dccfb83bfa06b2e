"""From the graded responses of a rollout step to one advantage per token, by the methods of `calibsft.rl`.

Groups, rewards, segments and weights are those of `calibsft rl`. A group with a response that cannot be graded gets
advantages of 0. Does not import verl.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calibsft.integrations.verl.record import ResponseRecord
from calibsft.rl.batches import Row, rows_of, token_counts
from calibsft.rl.dynamics import StepRecord, step_metrics, step_record
from calibsft.rl.method import FloatArray, Group
from calibsft.rl.methods import method_of
from calibsft.rl.scoring import Response, ScoredGroup
from calibsft.rl.settings import MethodSettings


@dataclass(frozen=True, slots=True)
class Sampled:
    """A response of a rollout step: the question that it answers and the update that trains on it, by number."""

    question: str
    update: int
    token_ids: tuple[int, ...]
    record: ResponseRecord


def update_numbers(rows: int, ranks: int, rows_per_update: int) -> list[int]:
    """The update that trains on each row: verl gives each rank consecutive rows, and each update the next of every rank."""
    rows_per_rank = rows // ranks
    return [row % rows_per_rank // (rows_per_update // ranks) for row in range(rows)]


def token_advantages(
    sampled: Sequence[Sampled], settings: MethodSettings
) -> tuple[list[FloatArray], dict[str, float]]:
    """The advantages of each response's tokens, and the metrics of the step."""
    method, rows, records = method_of(settings), dict[int, Row](), list[StepRecord]()
    for places in _groups(sampled):
        members = [sampled[place] for place in places]
        scored = _scored_group(members)
        if len(members) > 1 and all(one.record.scored for one in members):
            found = rows_of(scored, method, settings)
            records.append(step_record(scored, method, settings))
        else:  # nothing to compare with, or an unknown correctness
            found = [Row((), one, np.zeros(len(one.token_ids))) for one in scored.responses]
        rows |= zip(places, found, strict=True)
    weigh = _segment_weights if settings.option("segment_loss") else _equal_weights
    weights = weigh([(one.update, rows[place]) for place, one in enumerate(sampled)])
    advantages = [rows[place].weighted_T(*weights[one.update]) for place, one in enumerate(sampled)]
    return advantages, step_metrics(records) if records else {}


def _groups(sampled: Sequence[Sampled]) -> list[list[int]]:
    """The places of the responses to each question."""
    places: dict[str, list[int]] = {}
    for place, one in enumerate(sampled):
        places.setdefault(one.question, []).append(place)
    return list(places.values())


def _scored_group(members: Sequence[Sampled]) -> ScoredGroup:
    records = [one.record for one in members]
    group = Group(
        correct_G=np.array([record.correct for record in records]),
        confidence_G=np.array([record.confidence for record in records], dtype=float),
        well_formed_G=np.array([record.well_formed for record in records]),
        success_rate=records[0].success_rate,
    )
    return ScoredGroup(members[0].question, (), tuple(_response(one) for one in members), group)


def _response(one: Sampled) -> Response:
    """The response without what only sampling knows: verl computes log-probabilities itself."""
    tokens = len(one.token_ids)
    unknown = np.full(tokens, np.nan, dtype=np.float32)
    return Response(one.token_ids, unknown, one.record.marks_T(tokens), one.record.reason, entropy=None)


def _segment_weights(rows: Sequence[tuple[int, Row]]) -> dict[int, tuple[float, float]]:
    """The weights of answer and confidence tokens in every update, from its number and rows."""
    members: dict[int, list[Row]] = {}
    for update, row in rows:
        members.setdefault(update, []).append(row)
    return {update: token_counts(group).segment_weights() for update, group in members.items()}


def _equal_weights(rows: Sequence[tuple[int, Row]]) -> dict[int, tuple[float, float]]:
    return {update: (1.0, 1.0) for update, _ in rows}
