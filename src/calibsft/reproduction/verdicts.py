"""Judges claims: each check by an interval for other seeds and other questions, each claim by its checks.

A check holds if the whole interval lies on the claimed side, does not hold if it lies on the other side, and is undecided
otherwise; a check of something that has no value cannot be tested. A claim does not hold if one of its checks does not,
and holds if all of them do. Knows no claim by name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from calibsft.reproduction.claims import Address, Check, Claim
from calibsft.reproduction.quantity import Estimate, Quantity, estimate, exact

Rows = Mapping[str, Mapping[str, Quantity]]
# Differences of exact numbers are compared to this many decimals.
DIGITS = 9


class Outcome(Enum):
    """What came out for a check or a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNDECIDED = "undecided"
    UNTESTABLE = "not testable here"


@dataclass(frozen=True, slots=True)
class Judged:
    """A check with what it compares here: both values, and their difference with its interval."""

    check: Check
    outcome: Outcome
    left: float
    right: float
    difference: Estimate


@dataclass(frozen=True, slots=True)
class Verdict:
    """A claim with its outcome and its checks; `untestable` says why it has none."""

    claim: Claim
    outcome: Outcome
    untestable: str = ""
    checks: tuple[Judged, ...] = ()


def judge(claim: Claim, rows: Rows | None) -> Verdict:
    """The verdict on a claim, from the cells of its experiment; None if the experiment was not run."""
    if claim.untestable:
        return Verdict(claim, Outcome.UNTESTABLE, claim.untestable)
    if rows is None:
        return Verdict(claim, Outcome.UNTESTABLE, "its experiment was not run")
    checks = tuple(judge_check(check, rows) for check in claim.checks)
    return Verdict(claim, _together([judged.outcome for judged in checks]), checks=checks)


def judge_check(check: Check, rows: Rows) -> Judged:
    """One comparison."""
    left = _cell(rows, check.left)
    right = exact(check.right) if isinstance(check.right, float) else _cell(rows, check.right)
    found = estimate(left - check.times * right)
    return Judged(
        check,
        _outcome(check, found),
        estimate(left).value,
        estimate(right).value,
        found,
    )


def _cell(rows: Rows, address: Address) -> Quantity:
    """What was measured; without a value, NaN."""
    row, column = address
    return rows.get(row, {}).get(column, exact(np.nan))


def _outcome(check: Check, found: Estimate) -> Outcome:
    low, high = round(found.low, DIGITS), round(found.high, DIGITS)
    if np.isnan(found.value):
        return Outcome.UNTESTABLE
    if np.isnan(low):
        return Outcome.UNDECIDED
    if check.relation == "close":
        if -check.margin <= low and high <= check.margin:
            return Outcome.HOLDS
        return Outcome.FAILS if low > check.margin or high < -check.margin else Outcome.UNDECIDED
    below, above = high < 0, low > 0
    claimed, opposite = (below, above) if check.relation == "below" else (above, below)
    return Outcome.HOLDS if claimed else Outcome.FAILS if opposite else Outcome.UNDECIDED


def _together(outcomes: Sequence[Outcome]) -> Outcome:
    order = (Outcome.FAILS, Outcome.UNDECIDED, Outcome.UNTESTABLE)
    return next((outcome for outcome in order if outcome in outcomes), Outcome.HOLDS)


def deciding(verdict: Verdict) -> Judged | None:
    """The check that decides a claim: the first with the outcome of the claim."""
    return next((one for one in verdict.checks if one.outcome is verdict.outcome), None)
