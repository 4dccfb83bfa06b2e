"""Verdicts are computed: opposite results flip them, noise leaves them undecided, and the paper's own numbers are consistent."""

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from calibsft.reproduction.claims import Check, Claim, paper_numbers, read_claims
from calibsft.reproduction.quantity import Quantity, by_seed, count_of, estimate, exact, mean_of
from calibsft.reproduction.verdicts import Outcome, judge, judge_check

CLAIMS = {claim.id: claim for claim in read_claims()}
TESTABLE = [claim for claim in CLAIMS.values() if not claim.untestable]
# Claims that the paper's own tables contradict.
CONTRADICTED = {
    "main.rlvr-raises-ood-accuracy",
    "formats.fine-grid-fits-closest",
    "per-dataset.wherever-ece-exceeds-25",
    "metrics.all-four-lower",
    "diversity.fewer-than-seven-values-from-base",
    "diversity.support-several-times",
}
Cells = dict[str, dict[str, Quantity]]


def fabricated(claim: Claim, gap: Callable[[Check], float], noise: float = 0.0) -> Cells:
    """Cells for a claim, one check after the other: `gap` is how far the left side is from what it is compared with."""
    random = np.random.default_rng(0)
    rows: Cells = {}
    for check in claim.checks:
        right = 0.5 if not isinstance(check.right, float) else check.right
        for (row, column), value in zip(check.cells, (check.times * right + gap(check), right), strict=False):
            drawn = value + noise * random.standard_normal((3, 11))
            rows.setdefault(row, {}).setdefault(column, drawn)
    return rows


def alone(claim: Claim) -> list[Claim]:
    """The claim with each of its checks alone, so that cells of one check do not fix those of another."""
    return [Claim(claim.id, claim.source, claim.text, claim.experiment, (check,)) for check in claim.checks]


def claimed(check: Check) -> float:
    return {"below": -0.2, "above": 0.2, "close": 0.0}[check.relation]


def opposite(check: Check) -> float:
    return {"below": 0.2, "above": -0.2, "close": check.margin + 0.2}[check.relation]


@pytest.mark.parametrize("claim", TESTABLE, ids=lambda claim: claim.id)
def test_every_verdict_follows_the_results(claim: Claim) -> None:
    for one in alone(claim):
        assert judge(one, fabricated(one, claimed)).outcome is Outcome.HOLDS
        assert judge(one, fabricated(one, opposite)).outcome is Outcome.FAILS
        noisy = fabricated(one, lambda check: check.margin, noise=0.5)
        assert judge(one, noisy).outcome is Outcome.UNDECIDED


@pytest.mark.parametrize("claim", TESTABLE, ids=lambda claim: claim.id)
def test_the_paper_agrees_with_itself_but_for_the_known_claims(claim: Claim) -> None:
    numbers: Mapping[str, Mapping[str, float]] = paper_numbers().get(claim.experiment, {})
    rows = {row: {column: exact(value) for column, value in cells.items()} for row, cells in numbers.items()}
    checks = [
        check for check in claim.checks if all(column in rows.get(row, {}) for row, column in check.cells)
    ]
    failed = [check for check in checks if judge_check(check, rows).outcome is not Outcome.HOLDS]
    assert bool(failed) == (claim.id in CONTRADICTED), failed


def test_every_contradicted_claim_is_there() -> None:
    assert CLAIMS.keys() >= CONTRADICTED and len(CLAIMS) == len(read_claims())


def test_a_claim_fails_with_one_of_its_checks() -> None:
    checks = tuple(Check((name, "x"), 0.5, "below") for name in "ab")
    claim = Claim("t", "", "", "main", checks)
    assert judge(claim, {"a": {"x": exact(0.1)}, "b": {"x": exact(0.9)}}).outcome is Outcome.FAILS
    unsure = by_seed([0.3, 0.6, 0.5])
    assert judge(claim, {"a": {"x": exact(0.1)}, "b": {"x": unsure}}).outcome is Outcome.UNDECIDED


def test_what_was_not_measured_is_not_testable_and_said() -> None:
    claim = Claim("t", "", "", "main", (Check(("Base", "id.ece"), 0.5, "below"),))
    assert judge(claim, None).outcome is Outcome.UNTESTABLE
    found = judge(claim, {"Base": {}})
    assert found.outcome is Outcome.UNTESTABLE and found.checks[0].outcome is Outcome.UNTESTABLE


def test_a_check_without_a_value_is_not_testable_and_keeps_the_claim_from_holding() -> None:
    checks = tuple(Check((name, "x"), 0.5, "below") for name in "ab")
    claim, nothing = Claim("t", "", "", "main", checks), exact(np.nan)

    def found(a: float, b: Quantity) -> Outcome:
        return judge(claim, {"a": {"x": exact(a)}, "b": {"x": b}}).outcome

    assert found(0.1, exact(0.2)) is Outcome.HOLDS
    assert found(0.1, nothing) is Outcome.UNTESTABLE
    assert found(0.9, nothing) is Outcome.FAILS


def test_equal_numbers_are_on_neither_side() -> None:
    rows = {"a": {"x": exact(0.0)}, "b": {"x": exact(0.0)}}
    for relation in ("below", "above"):
        assert judge_check(Check(("a", "x"), ("b", "x"), relation), rows).outcome is Outcome.UNDECIDED
    assert judge_check(Check(("a", "x"), ("b", "x"), "close"), rows).outcome is Outcome.HOLDS


def test_seeds_without_a_value_are_left_out_and_few_draws_make_no_interval() -> None:
    found = estimate(by_seed([0.4, np.nan, 0.6]))
    assert (found.value, found.seeds) == (pytest.approx(0.5), 2)
    single = estimate(by_seed([np.nan, 0.4, np.nan]))
    assert single.value == 0.4 and np.isnan(single.low), "one of three seeds says nothing of the others"
    few = np.array([[0.5, 0.4, 0.45, np.nan, np.nan, np.nan]])
    assert estimate(few).value == 0.5 and np.isnan(estimate(few).low)
    rows = {"a": {"x": few}}
    assert judge_check(Check(("a", "x"), 0.9, "below"), rows).outcome is Outcome.UNDECIDED


def test_an_interval_has_both_sources_of_chance() -> None:
    still = estimate(exact(0.5))
    assert (still.low, still.value, still.high, still.deviation) == (0.5, 0.5, 0.5, None)
    seeds = estimate(by_seed([0.4, 0.5, 0.6]))
    assert seeds.deviation == pytest.approx(0.1) and seeds.high - seeds.value == pytest.approx(
        4.302653 * 0.1 / 3**0.5, rel=1e-5
    )
    questions = np.concatenate([[0.5], 0.5 + 0.1 * np.tile([1.0, -1.0], 100)])[None]
    assert estimate(questions).high - 0.5 == pytest.approx(1.959964 * 0.1 * (200 / 199) ** 0.5, rel=1e-5)
    both = estimate(np.stack([questions[0] + shift for shift in (-0.1, 0.0, 0.1)]))
    assert both.high - both.value == pytest.approx(
        np.hypot(seeds.high - seeds.value, estimate(questions).high - 0.5)
    )


def test_draws_are_paired() -> None:
    shared = np.random.default_rng(0).standard_normal((1, 201))
    found = estimate((shared + 0.1) - shared)
    assert found.low == pytest.approx(0.1) == pytest.approx(found.high)


def test_means_leave_out_what_has_no_value_and_counts_count_in_every_draw() -> None:
    one, other = np.array([[0.2, np.nan]]), np.array([[0.4, 0.6]])
    assert mean_of([one, other]).tolist() == [[pytest.approx(0.3), 0.6]]
    assert np.isnan(mean_of([np.array([[np.nan]])])).all()
    assert count_of([one < other, other < 0.5]).tolist() == [[2.0, 0.0]]
