"""What a response should have said: the exact grid of values, the margin, and the paper's shared pool."""

from fractions import Fraction

import polars as pl
import pytest

from calibsft.errors import InputError
from calibsft.metrics import evaluate
from calibsft.responses.formats import FORMATS
from calibsft.success_rates import rate_questions
from calibsft.targets import TARGETS
from calibsft.targets.build import exact_targets
from calibsft.targets.calibsft import mixed_target
from calibsft.targets.csft import success_rate_target
from calibsft.targets.settings import TargetSettings

HALF = Fraction(1, 2)


def reachable(rollouts: int, mix: Fraction = HALF) -> set[Fraction]:
    """All targets of a question: a correct response exists only if k > 0, an incorrect one only if k < n."""
    right = {mixed_target(Fraction(k, rollouts), True, mix) for k in range(1, rollouts + 1)}
    return right | {mixed_target(Fraction(k, rollouts), False, mix) for k in range(rollouts)}


def test_fifty_rollouts_give_one_hundred_targets_and_never_a_half() -> None:
    values = reachable(50)
    assert values == {Fraction(i, 100) for i in range(101)} - {HALF}
    assert len(values) == 100


def test_fifty_rollouts_are_written_with_two_decimals_and_without_rounding() -> None:
    texts = {FORMATS["probability"].render(value) for value in reachable(50)}
    assert texts == {f"0.{i:02d}" for i in range(100) if i != 50} | {"1.00"}


def test_ten_rollouts_give_twenty_targets() -> None:
    assert len(reachable(10)) == 20


@pytest.mark.parametrize("mix", [Fraction(0), Fraction(1, 4), HALF, Fraction(3, 10), Fraction(1)])
@pytest.mark.parametrize("successes", [1, 2, 25, 49])
def test_right_and_wrong_responses_of_a_question_lie_one_minus_mix_apart(
    mix: Fraction, successes: int
) -> None:
    rate = Fraction(successes, 50)
    assert mixed_target(rate, True, mix) - mixed_target(rate, False, mix) == 1 - mix


def test_csft_does_not_tell_right_from_wrong() -> None:
    rate = Fraction(3, 10)
    assert success_rate_target(rate, True, HALF) == success_rate_target(rate, False, HALF) == rate


def test_mix_one_is_csft_and_mix_zero_is_the_bare_outcome() -> None:
    rate = Fraction(7, 50)
    for correct in (True, False):
        assert mixed_target(rate, correct, Fraction(1)) == success_rate_target(rate, correct, HALF)
        assert mixed_target(rate, correct, Fraction(0)) == int(correct)


def shared_pool() -> pl.DataFrame:
    """The paper's comparison: 300 questions at each q of .1 … .9, one correct and one incorrect response each."""
    rows = [{"k": k, "n": 10, "correct": z} for k in range(1, 10) for _ in range(300) for z in (True, False)]
    return pl.DataFrame(rows)


@pytest.mark.parametrize(
    "name, brier, auroc", [("csft", Fraction(19, 60), 0.5), ("calibsft", Fraction(19, 240), 1.0)]
)
def test_targets_of_the_shared_pool_score_as_the_paper_says(name: str, brier: Fraction, auroc: float) -> None:
    pool = shared_pool()
    targets = exact_targets(pool, TargetSettings(name=name))
    squares = [(t - z) ** 2 for t, z in zip(targets, pool["correct"].to_list(), strict=True)]
    assert sum(squares, Fraction(0)) / len(squares) == brier
    found = evaluate([float(t) for t in targets], pool["correct"])
    assert round(found["brier"], 4) == {"csft": 0.3167, "calibsft": 0.0792}[name]
    assert found["auroc"] == auroc


def test_targets_are_exact_where_floats_are_not() -> None:
    kept = pl.DataFrame({"k": [1, 3], "n": [10, 10], "correct": [True, False]})
    targets = exact_targets(kept, TargetSettings(mix=0.1))
    assert targets == [Fraction(91, 100), Fraction(3, 100)]


def test_an_unknown_target_is_refused_with_the_nearest_name() -> None:
    kept = pl.DataFrame({"k": [1], "n": [2], "correct": [True]})
    with pytest.raises(InputError, match="unknown target 'calibsf'; did you mean 'calibsft'"):
        exact_targets(kept, TargetSettings(name="calibsf"))


def test_every_target_is_listed_under_its_own_name() -> None:
    assert {name: target.name for name, target in TARGETS.items()} == {"calibsft": "calibsft", "csft": "csft"}


LABELS = pl.DataFrame(
    {
        "dataset": ["", "", "", "", "b", "b"],
        "question_id": ["1", "1", "1", "1", "1", "1"],
        "sample": [0, 1, 2, 3, 0, 1],
        "ending": ["finished", "truncated", "finished", "finished", "finished", "finished"],
        "correct": [True, True, False, True, False, True],
        "reason": ["ok", "truncated", "ok", "bad_confidence", "ok", "ok"],
    }
)


def test_success_rates_count_malformed_responses_and_take_unfinished_ones_as_wrong() -> None:
    rated = rate_questions(LABELS, "pool")
    assert rated.filter(pl.col("dataset") == "")["k"].to_list() == [2, 2, 2, 2]
    assert rated["n"].to_list() == [4, 4, 4, 4, 2, 2]
    assert rated["correct"].to_list() == [True, False, False, True, False, True]


def test_a_truncated_response_that_was_made_to_answer_counts_by_its_answer() -> None:
    ending = pl.Series(["finished", "forced", "forced", "finished", "finished", "finished"])
    rated = rate_questions(LABELS.with_columns(ending=ending), "pool")
    assert rated.filter(pl.col("dataset") == "")["k"].to_list() == [3, 3, 3, 3]
    assert rated["correct"].to_list() == LABELS["correct"].to_list()


def test_the_same_id_in_two_datasets_is_two_questions() -> None:
    rated = rate_questions(LABELS, "pool").filter(pl.col("dataset") == "b")
    assert rated["k"].to_list() == [1, 1] and rated["n"].to_list() == [2, 2]


def test_questions_with_ungraded_responses_are_left_out_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    ungraded = LABELS.with_columns(correct=pl.Series([True, None, False, True, False, True]))
    rated = rate_questions(ungraded, "pool")
    assert rated["dataset"].unique().to_list() == ["b"]
    assert "warning: pool: 1 questions have ungraded responses and are left out" in capsys.readouterr().err
