"""Judges claims: each check by an interval for other seeds and other questions, each claim by its checks.

A check holds if the whole interval lies on the claimed side, does not hold if it lies on the other side, and is undecided
otherwise. A claim holds if all its checks hold, and does not hold if one of them does not. Knows no claim by name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from calibsft.reproduction.claims import Check, Claim
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
    """A claim with its outcome and its checks; `untestable` says why there are none."""

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
    missing = [cell for check in claim.checks for cell in check.cells if cell[1] not in rows.get(cell[0], {})]
    if missing:
        return Verdict(claim, Outcome.UNTESTABLE, f"nothing was measured for {' | '.join(missing[0])}")
    checks = tuple(judge_check(check, rows) for check in claim.checks)
    return Verdict(claim, _together([judged.outcome for judged in checks]), checks=checks)


def judge_check(check: Check, rows: Rows) -> Judged:
    """One comparison."""
    left = rows[check.left[0]][check.left[1]]
    right = exact(check.right) if isinstance(check.right, float) else rows[check.right[0]][check.right[1]]
    found = estimate(left - check.times * right)
    return Judged(
        check,
        _outcome(check, found),
        float(left[:, 0].mean()),
        float(right[:, 0].mean()),
        found,
    )


def _outcome(check: Check, found: Estimate) -> Outcome:
    low, high = round(found.low, DIGITS), round(found.high, DIGITS)
    if np.isnan(low) or np.isnan(high):
        return Outcome.UNDECIDED
    if check.relation == "close":
        if -check.margin <= low and high <= check.margin:
            return Outcome.HOLDS
        return Outcome.FAILS if low > check.margin or high < -check.margin else Outcome.UNDECIDED
    below, above = high < 0, low > 0
    if low == high == 0:
        return Outcome.FAILS  # equal, without any doubt
    claimed, opposite = (below, above) if check.relation == "below" else (above, below)
    return Outcome.HOLDS if claimed else Outcome.FAILS if opposite else Outcome.UNDECIDED


def _together(outcomes: Sequence[Outcome]) -> Outcome:
    if Outcome.FAILS in outcomes:
        return Outcome.FAILS
    return Outcome.UNDECIDED if Outcome.UNDECIDED in outcomes else Outcome.HOLDS


def deciding(verdict: Verdict) -> Judged | None:
    """The check that decides a claim: the first that fails, else the first that is undecided, else the first."""
    order = (Outcome.FAILS, Outcome.UNDECIDED, Outcome.HOLDS)
    return next((one for outcome in order for one in verdict.checks if one.outcome is outcome), None)
