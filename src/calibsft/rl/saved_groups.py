"""Scored groups as plain data, so that a checkpoint can hold the surplus of its step."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from calibsft.rl.method import Group
from calibsft.rl.scoring import Response, ScoredGroup


def groups_to_json(groups: Sequence[ScoredGroup]) -> list[dict[str, Any]]:
    """`groups` as lists, numbers and texts, without loss: a float32 is exact as a Python float."""
    return [
        {
            "question_id": scored.question_id,
            "prompt_ids": scored.prompt_ids,
            "responses": [_response_to_json(response) for response in scored.responses],
            "correct": scored.group.correct_G.tolist(),
            "confidence": [None if np.isnan(c) else float(c) for c in scored.group.confidence_G],
            "well_formed": scored.group.well_formed_G.tolist(),
            "success_rate": scored.group.success_rate,
        }
        for scored in groups
    ]


def groups_from_json(rows: Sequence[dict[str, Any]]) -> list[ScoredGroup]:
    """The inverse of `groups_to_json`."""
    return [
        ScoredGroup(
            row["question_id"],
            tuple(row["prompt_ids"]),
            tuple(_response_from_json(response) for response in row["responses"]),
            Group(
                np.array(row["correct"]),
                np.array(row["confidence"], dtype=float),
                np.array(row["well_formed"]),
                row["success_rate"],
            ),
        )
        for row in rows
    ]


def _response_to_json(response: Response) -> dict[str, Any]:
    return {
        "token_ids": response.token_ids,
        "logprobs": response.logprobs_T.tolist(),
        "confidence_tokens": response.confidence_T.tolist(),
        "reason": response.reason,
        "entropy": response.entropy,
    }


def _response_from_json(row: dict[str, Any]) -> Response:
    return Response(
        tuple(row["token_ids"]),
        np.array(row["logprobs"], dtype=np.float32),
        np.array(row["confidence_tokens"]),
        row["reason"],
        row["entropy"],
    )
