"""Selective answering with a guarantee: the lowest confidence from which on the error rate is certified.

Learn-then-Test over 101 thresholds, by one of two procedures (`procedures`): the paper's union bound, or a fixed sequence,
which is tighter. The error rate need not fall as the threshold rises, so the sequence has several starts. The guarantee is
for questions drawn like those of calibration, with one response each. Does not route to other models.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibsft.decisions import procedures
from calibsft.decisions.bounds import error_rate_upper_bound
from calibsft.decisions.procedures import UNION
from calibsft.errors import InputError
from calibsft.metrics.evaluate import Column, checked_responses, id_series
from calibsft.metrics.table import FloatArray, IntArray, decimals
from calibsft.tables import row_of, shown

LAST_THRESHOLD = 100
THRESHOLDS = LAST_THRESHOLD + 1
DELTA = 0.05
# Where fixed sequences start: close together where confident models state most, and at 0 to answer everything. A sequence
# from the very top would fail at once for want of responses.
STARTS = (98, 95, 90, 85, 80, 70, 60, 50, 30, 0)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One tested threshold, in hundredths: what it accepts, and whether its error rate is certified.

    `error_rate` is None where nothing is accepted. A fixed sequence leaves out what lies behind a failure, so `passes` may
    be false where the bound is low enough.
    """

    threshold: int
    accepted: int
    errors: int
    error_rate: float | None
    bound: float
    passes: bool


@dataclass(frozen=True, slots=True)
class Certificate:
    """From which confidence on answers may be given.

    Attributes
    ----------
    risk
        The error rate that answers may have.
    delta, procedure
        The probability that the certificate is wrong, and how it was tested.
    threshold
        Answer where the confidence is at least so many hundredths; None: abstain on everything.
    questions
        How many questions it was calibrated on.
    candidates
        Every threshold that was tested, in ascending order.
    """

    risk: float
    delta: float
    procedure: str
    threshold: int | None
    questions: int
    candidates: tuple[Candidate, ...]


def certify(
    confidence: Column,
    correct: Column,
    question_id: Column,
    risk: float,
    delta: float = DELTA,
    procedure: str = UNION,
) -> Certificate:
    """The lowest threshold whose error rate is at most `risk` with probability at least 1 − `delta`.

    Parameters
    ----------
    confidence : stated confidences in [0, 1], one response per question.
    correct : whether each response was right.
    question_id : which question each response answers; repeated questions are refused.
    risk : largest error rate among the answers given, in (0, 1).
    delta : probability of being wrong, in (0, 1).
    procedure : "union", or "fixed-sequence", which certifies more with the same guarantee.

    Raises
    ------
    InputError : values out of range, or several responses to one question.
    """
    stated, right = checked_responses(confidence, correct, question_id)
    require_shares(risk=risk, delta=delta)
    refuse_repeated(question_id)
    table = RiskTable.count(hundredths(stated), right.astype(bool), delta, procedure)
    return Certificate(risk, delta, procedure, table.lowest(risk), len(stated), table.candidates(risk))


def require_shares(**shares: float) -> None:
    """Refuse whatever is not strictly between 0 and 1."""
    for name, value in shares.items():
        if not 0 < value < 1:
            raise InputError(f"{name} is {value}; give a number between 0 and 1, such as 0.05")


def refuse_repeated(question_id: Column) -> None:
    """Responses to one question err together, so counting them as independent breaks the guarantee."""
    ids = id_series(question_id)
    repeated = ids.is_duplicated()
    if repeated.any():
        count = ids.filter(repeated).n_unique()
        first = shown(question_id[row_of(repeated) - 1])
        raise InputError(
            f"question {first} has several responses ({count} such questions), which breaks the guarantee: they err"
            " together; keep one response per question, chosen without looking at it"
        )


def hundredths(confidence: NDArray[np.floating]) -> IntArray:
    """The largest threshold that each confidence reaches, exactly: 0.29 is 29, and 0.2899 is 28."""
    values = decimals(confidence)
    nearest = np.rint(values * LAST_THRESHOLD)
    # 0.29 · 100 is less than 29 in floats, but 29 / 100 is the float that the text 0.29 denotes.
    return (nearest - (values < nearest / LAST_THRESHOLD)).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class RiskTable:
    """Counts and bounds for every threshold, in ascending order, for any risk."""

    accepted: IntArray
    errors: IntArray
    bounds: FloatArray
    procedure: str

    @classmethod
    def count(
        cls, reached: IntArray, correct: NDArray[np.bool_], delta: float, procedure: str = UNION
    ) -> "RiskTable":
        """Bound all thresholds on responses that reach so many `hundredths`."""
        accepted, errors = accepted_from(reached), accepted_from(reached[~correct])
        tested_at = procedures.level(procedure, delta, THRESHOLDS, STARTS)
        return cls(accepted, errors, error_rate_upper_bound(errors, accepted, tested_at), procedure)

    def certified(self, risk: float) -> NDArray[np.bool_]:
        """Which thresholds keep the error rate."""
        return procedures.accepted(self.bounds <= risk, self.procedure, STARTS)

    def lowest(self, risk: float) -> int | None:
        """The lowest certified threshold, None if there is none."""
        found = np.flatnonzero(self.certified(risk))
        return int(found[0]) if len(found) else None

    def candidates(self, risk: float) -> tuple[Candidate, ...]:
        columns = (self.accepted, self.errors, self.bounds, self.certified(risk))
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return tuple(
            Candidate(threshold, n, k, k / n if n else None, bound, passes)
            for threshold, (n, k, bound, passes) in enumerate(rows)
        )


def accepted_from(reached: IntArray) -> IntArray:
    """How many responses each threshold accepts."""
    return np.bincount(reached, minlength=THRESHOLDS)[::-1].cumsum()[::-1]
