"""The verdicts as tables: for each experiment its claims, the reasons of those that do not hold, and every comparison."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from calibsft.report.markup import Cell, Table
from calibsft.reproduction.claims import Check, paper_numbers
from calibsft.reproduction.experiment import Experiment
from calibsft.reproduction.quantity import Estimate
from calibsft.reproduction.tables import MISSING, in_csv
from calibsft.reproduction.verdicts import Judged, Outcome, Verdict, deciding
from calibsft.reproduction.wording import comparison, tally

HEADER = ("Paper", "Here", "Difference", "Verdict")


@dataclass(frozen=True, slots=True)
class VerdictPart:
    """The verdicts on the claims of one experiment.

    Attributes
    ----------
    claims : a row per claim, with the check that decides it.
    reasons : the text of a claim that does not simply hold, and why; claims without a reason are left out.
    checks : a row per check.
    """

    title: str
    claims: Table
    reasons: tuple[tuple[str, str], ...]
    checks: Table


def verdict_parts(
    verdicts: Sequence[Verdict], experiments: Sequence[Experiment], reasons: Mapping[str, str]
) -> Iterator[VerdictPart]:
    """The verdicts by experiment; those on experiments that were not run come last."""
    known = {one.name: one for one in experiments}
    for name, experiment in known.items():
        found = [one for one in verdicts if one.claim.experiment == name]
        if found:
            yield _part(experiment.title, experiment, found, reasons)
    others = [one for one in verdicts if one.claim.experiment not in known]
    if others:
        yield _part("Not run", None, others, reasons)


def _part(
    title: str, experiment: Experiment | None, verdicts: Sequence[Verdict], reasons: Mapping[str, str]
) -> VerdictPart:
    claims = tuple(_claim_row(one, experiment) for one in verdicts)
    checks = tuple(_check_row(one, judged, experiment) for one in verdicts for judged in one.checks)
    header = ("Claim", "Decided by", *HEADER)
    said = ((one.claim.text, _why(one, experiment, reasons)) for one in verdicts)
    return VerdictPart(
        title,
        Table(title, header, claims, labels=len(header)),
        tuple((text, why) for text, why in said if why),
        Table(f"All comparisons: {title}", ("Comparison", *HEADER), checks, labels=1 + len(HEADER)),
    )


def _claim_row(verdict: Verdict, experiment: Experiment | None) -> tuple[Cell, ...]:
    """A claim with the check that decides it: the paper's numbers, ours, and their difference with its interval."""
    claim, found = Cell(f"{verdict.claim.text} ({verdict.claim.source})"), deciding(verdict)
    if found is None:
        return claim, *([Cell(MISSING)] * 4), Cell(verdict.outcome.value)
    words = Cell(comparison(found.check, experiment))
    return claim, words, *_numbers(verdict, found), _marked(verdict.outcome, tally(verdict))


def _check_row(verdict: Verdict, judged: Judged, experiment: Experiment | None) -> tuple[Cell, ...]:
    words = Cell(comparison(judged.check, experiment))
    return words, *_numbers(verdict, judged), _marked(judged.outcome)


def _numbers(verdict: Verdict, judged: Judged) -> tuple[Cell, Cell, Cell]:
    check, paper = judged.check, _in_paper(verdict.claim.experiment, judged.check)
    return (
        Cell(_against(check, *paper, verdict.claim.paper_text)),
        Cell(_against(check, judged.left, judged.right)),
        _difference(judged.difference),
    )


def _difference(gap: Estimate) -> Cell:
    if np.isnan(gap.value):
        return Cell(MISSING)
    return Cell(f"{gap.value:+.3f}", span="" if np.isnan(gap.low) else f"{gap.low:+.3f} – {gap.high:+.3f}")


def _marked(outcome: Outcome, span: str = "") -> Cell:
    return Cell(outcome.value, best=outcome is Outcome.HOLDS, worse=outcome is Outcome.FAILS, span=span)


def _against(check: Check, left: float | None, right: float | None, otherwise: str = "") -> str:
    if left is None or right is None:
        return otherwise or MISSING
    if np.isnan(left) or np.isnan(right):
        return MISSING
    times = f"{check.times:g} × " if check.times != 1 else ""
    return f"{left:.3f}" if isinstance(check.right, float) else f"{left:.3f} against {times}{right:.3f}"


def _why(verdict: Verdict, experiment: Experiment | None, reasons: Mapping[str, str]) -> str:
    """The reason that was written for a claim that does not simply hold, or what there is no value for."""
    if verdict.outcome is Outcome.HOLDS:
        return ""
    found = deciding(verdict)
    missing = f"there is no value for: {comparison(found.check, experiment)}" if found else ""
    without = missing if verdict.outcome is Outcome.UNTESTABLE else ""
    return reasons.get(verdict.claim.id, verdict.untestable or without)


def checks_text(verdicts: Sequence[Verdict]) -> str:
    """Every comparison of every claim as CSV, with the paper's numbers beside ours."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        ["claim", "left", "is", "times", "right", "margin", "paper_left", "paper_right", "here_left", "here_right",
         "difference", "low", "high", "verdict"]
    )  # fmt: skip
    for verdict in verdicts:
        for one in verdict.checks:
            check, found = one.check, one.difference
            right = check.right if isinstance(check.right, float) else " | ".join(check.right)
            writer.writerow(
                [verdict.claim.id, " | ".join(check.left), check.relation, check.times, right, check.margin,
                 *_in_paper(verdict.claim.experiment, check), *map(in_csv, (one.left, one.right, found.value, found.low, found.high)),
                 one.outcome.value]
            )  # fmt: skip
    return text.getvalue()


def _in_paper(experiment: str, check: Check) -> tuple[float | None, float | None]:
    numbers = paper_numbers().get(experiment, {})
    left = numbers.get(check.left[0], {}).get(check.left[1])
    if isinstance(check.right, float):
        return left, check.right
    return left, numbers.get(check.right[0], {}).get(check.right[1])
