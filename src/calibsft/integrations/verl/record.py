"""What the reward manager tells the trainer about one response.

The two run in different processes. Between them is verl's dict of extra information, whose numbers verl averages into
metrics; so the record is one JSON text in it, which verl passes on unread.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from calibsft.rl.method import BoolArray
from calibsft.rl.scoring import ScoredGroup

RECORD = "calibsft"
# verl drops groups in which this is equal for all responses, if the config asks for that.
CORRECT = "correct"


@dataclass(frozen=True, slots=True)
class ResponseRecord:
    """A graded response; `segment` is the first token of its confidence segment and the first one after that."""

    correct: bool
    confidence: float | None
    well_formed: bool
    reason: str
    segment: tuple[int, int]
    success_rate: float | None
    scored: bool = True

    @classmethod
    def of(cls, scored: ScoredGroup) -> Self:
        """The record of the only response of `scored`."""
        (response,), group = scored.responses, scored.group
        confidence = float(group.confidence_G[0])
        return cls(
            correct=bool(group.correct_G[0]),
            confidence=None if np.isnan(confidence) else confidence,
            well_formed=bool(group.well_formed_G[0]),
            reason=response.reason,
            segment=_borders(response.confidence_T),
            success_rate=group.success_rate,
        )

    @classmethod
    def unscored(cls) -> Self:
        """The record of a response that cannot be graded."""
        return cls(False, None, False, "unscored", (0, 0), None, scored=False)

    @classmethod
    def read(cls, extra_info: dict[str, Any]) -> Self:
        """The record in verl's extra information."""
        found = json.loads(extra_info[RECORD])
        return cls(**{**found, "segment": tuple(found["segment"])})

    def extra_info(self) -> dict[str, Any]:
        """The record, and the figures that verl averages; a None is left out there."""
        return {
            CORRECT: float(self.counted),
            "well_formed": float(self.well_formed),
            "confidence": self.confidence,
            RECORD: json.dumps(asdict(self)),
        }

    @property
    def counted(self) -> bool:
        """Correctness as rewards count it: a malformed response is not correct."""
        return self.correct and self.well_formed

    def marks_T(self, tokens: int) -> BoolArray:
        """One mark per token: whether it belongs to the confidence segment."""
        places_T = np.arange(tokens)
        return (self.segment[0] <= places_T) & (places_T < self.segment[1])


def _borders(marks_T: BoolArray) -> tuple[int, int]:
    """Where the marked tokens begin and end; they are consecutive."""
    places = np.flatnonzero(marks_T)
    return (int(places[0]), int(places[-1]) + 1) if len(places) else (0, 0)
