"""The whole diagnosis of a confidence prior, from arrays: `calibsft.prior.diagnose`.

Combines concentration, Propositions 1 and 2, and the verdict. Responses with an unreadable confidence are left out; the
diagnosis gives their share, and the share of malformed responses if it is known. Does not read files or draw.
"""

from dataclasses import asdict, dataclass, field
from typing import Any

import polars as pl

from calibsft.errors import InputError
from calibsft.files.cells import decimals
from calibsft.metrics.calibration import ReliabilityBin, brier, expected_calibration_error, reliability_bins
from calibsft.metrics.evaluate import Column, checked_responses, filled, id_series
from calibsft.metrics.ranking import auroc
from calibsft.metrics.table import ConfidenceTable
from calibsft.prior.concentration import Concentration, by_correctness, concentration
from calibsft.prior.floor import Floor, Groups, brier_floor
from calibsft.prior.gradient import Gradient, reward_gradient
from calibsft.prior.verdict import Verdict, verdict

GROUP_SIZE = 8


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is known about a confidence prior.

    Attributes
    ----------
    n : responses with a readable confidence; everything below is about these.
    unreadable : share of all responses without a readable confidence.
    malformed : share of all responses that are malformed, None if unknown.
    auroc, brier, ece : as in `calibsft.metrics`; `auroc` is None if all are right or all are wrong.
    everything, correct, incorrect : concentration, None if there is no such response.
    bins : ten bands of confidence with count, mean confidence and accuracy.
    gradient : Proposition 1.
    floor : Proposition 2, None if no question has several responses.
    verdict : whether CalibSFT is worth it before RL, and why.
    """

    n: int
    unreadable: float
    malformed: float | None
    auroc: float | None
    brier: float
    ece: float
    everything: Concentration
    correct: Concentration | None
    incorrect: Concentration | None
    bins: tuple[ReliabilityBin, ...]
    gradient: Gradient
    floor: Floor | None
    verdict: Verdict = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "verdict", verdict(self))

    def to_json(self) -> dict[str, Any]:
        """The diagnosis as plain dictionaries, lists and numbers."""
        return asdict(self)


def diagnose(
    confidence: Column,
    correct: Column,
    question_id: Column | None = None,
    group_size: int = GROUP_SIZE,
    malformed: float | None = None,
) -> Diagnosis:
    """Diagnose the prior from a set of responses.

    Parameters
    ----------
    confidence : stated confidences in [0, 1], one per response; None (null) if unreadable.
    correct : whether each response was right: booleans, or 0 and 1.
    question_id : the question of each response. The floor of Proposition 2 needs 8 or more responses per question, sampled
        as in RL at temperature 1.
    group_size : responses per question in RL.
    malformed : share of malformed responses if known; RL gives them no reward.

    Raises
    ------
    InputError : no readable confidence, unequal lengths, a value out of range, or a group size below 1.
    """
    if group_size < 1:
        raise InputError(f"the group size is {group_size}; RL samples at least one response per question")
    given, readable = filled(confidence)
    values, right = checked_responses(given, correct, question_id)
    if not readable.any():
        raise InputError("no response states a readable confidence, so there is no prior to diagnose")
    stated, right = decimals(values[readable]), right[readable].astype(bool)
    table, groups = ConfidenceTable.from_rows(stated, right), None
    if question_id is not None:
        # The number of a question is that of its first row.
        rows = id_series(question_id).to_frame("id").with_row_index("row")
        numbers = rows.select(pl.col("row").min().over("id")).to_series().to_numpy()
        groups = Groups.from_rows(stated, right, numbers[readable])
    right_ones, wrong_ones = by_correctness(table)
    return Diagnosis(
        n=table.responses,
        unreadable=1 - float(readable.mean()),
        malformed=malformed,
        auroc=auroc(table),
        brier=brier(table),
        ece=expected_calibration_error(table),
        everything=concentration(table),
        correct=right_ones,
        incorrect=wrong_ones,
        bins=reliability_bins(table),
        gradient=reward_gradient(table, groups.success if groups else None),
        floor=brier_floor(groups, table, group_size) if groups else None,
    )
