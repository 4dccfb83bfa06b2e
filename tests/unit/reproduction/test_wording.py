"""Checks and verdicts in words that a reader need not decode."""

import pytest

from calibsft.reproduction.claims import Check, Claim, read_claims
from calibsft.reproduction.experiments import EXPERIMENTS
from calibsft.reproduction.quantity import Quantity, exact
from calibsft.reproduction.verdicts import judge
from calibsft.reproduction.wording import comparison, tally


@pytest.mark.parametrize(
    ("check", "words"),
    [
        (
            Check(("RLCR + CalibSFT", "id.ece"), ("RLCR", "id.ece"), "below"),
            "ID ECE: RLCR + CalibSFT below RLCR",
        ),
        (
            Check(("CalibSFT", "id.brier"), ("Base", "id.brier"), "below", times=0.75),
            "ID Brier: CalibSFT below 0.75 × Base",
        ),
        (
            Check(("RLCR", "id.pass@1"), ("RLCR", "ood.pass@1"), "close", margin=0.03),
            "RLCR: ID Pass@1 within 0.03 of OOD Pass@1",
        ),
        (Check(("RLCR", "id.ece.sd"), 0.02, "below"), "ID ECE standard deviation: RLCR below 0.02"),
        (
            Check(("Pairs", "id.ece.lower"), ("Pairs", "id.pairs"), "close"),
            "Pairs: ID ECE lower equal to ID all pairs",
        ),
        (
            Check(("RLCR", "eps0.01.loss"), ("Tolerance", "eps0.01"), "below"),
            "ε = 0.01 loss of RLCR below ε = 0.01 of Tolerance",
        ),
    ],
)
def test_a_comparison_names_once_what_both_sides_share(check: Check, words: str) -> None:
    assert comparison(check, EXPERIMENTS["main"]) == words


def test_no_comparison_shows_the_name_of_a_key() -> None:
    for claim in read_claims():
        for check in claim.checks:
            words = comparison(check, EXPERIMENTS[claim.experiment])
            assert "_" not in words and " | " not in words, words


def test_a_tally_counts_the_checks_and_is_silent_about_a_single_one() -> None:
    rows: dict[str, dict[str, Quantity]] = {
        name: {"x": exact(value)} for name, value in {"a": 0.1, "b": 0.9, "c": 0.2}.items()
    }

    def told(names: str) -> str:
        checks = tuple(Check((name, "x"), 0.5, "below") for name in names)
        return tally(judge(Claim("t", "", "", "main", checks), rows))

    assert told("a") == ""
    assert told("ac") == "2 of 2 hold"
    assert told("abc") == "2 of 3 hold, 1 does not"
