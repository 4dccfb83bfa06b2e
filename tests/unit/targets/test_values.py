"""What a response should have said: the exact grid of values, the margin, and the paper's shared pool."""

from fractions import Fraction
from math import exp, log
from typing import Any

import polars as pl
import pytest

from calibsft.errors import InputError
from calibsft.metrics import evaluate
from calibsft.responses.formats import FORMATS
from calibsft.schema import LABEL
from calibsft.success_rates import rate_questions
from calibsft.targets import TARGETS
from calibsft.targets.calibsft import mixed_target
from calibsft.targets.labelling import label_rows
from calibsft.targets.labels import once_per
from calibsft.targets.settings import TargetSettings
from calibsft.targets.target import exact_value, on_grid

HALF = Fraction(1, 2)


def labels(name: str, rows: pl.DataFrame, **settings: Any) -> list[Fraction | None]:
    """What a target says of every row."""
    target = TARGETS[name]
    found = target.label(rows, target.settings(name=name, **settings))
    return [None if n is None else Fraction(n, d) for n, d in found.select(LABEL).iter_rows()]


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


BOTH = pl.DataFrame({"k": [7, 7], "n": [50, 50], "correct": [True, False]})


def test_csft_does_not_tell_right_from_wrong() -> None:
    assert labels("csft", BOTH) == [Fraction(7, 50)] * 2


def test_mix_one_is_csft_and_mix_zero_is_the_bare_outcome() -> None:
    assert labels("calibsft", BOTH, mix=1) == labels("csft", BOTH)
    assert labels("calibsft", BOTH, mix=0) == [1, 0]


def shared_pool() -> pl.DataFrame:
    """The paper's comparison: 300 questions at each q of .1 … .9, one correct and one incorrect response each."""
    rows = [{"k": k, "n": 10, "correct": z} for k in range(1, 10) for _ in range(300) for z in (True, False)]
    return pl.DataFrame(rows)


@pytest.mark.parametrize(
    "name, brier, auroc", [("csft", Fraction(19, 60), 0.5), ("calibsft", Fraction(19, 240), 1.0)]
)
def test_targets_of_the_shared_pool_score_as_the_paper_says(name: str, brier: Fraction, auroc: float) -> None:
    pool = shared_pool()
    targets = [label for label in labels(name, pool) if label is not None]
    squares = [(t - z) ** 2 for t, z in zip(targets, pool["correct"].to_list(), strict=True)]
    assert sum(squares, Fraction(0)) / len(squares) == brier
    found = evaluate([float(t) for t in targets], pool["correct"])
    assert f"{100 * found['brier']:.2f}" == {"csft": "31.67", "calibsft": "7.92"}[name]
    assert found["auroc"] == auroc


def test_targets_are_exact_where_floats_are_not() -> None:
    kept = pl.DataFrame({"k": [1, 3], "n": [10, 10], "correct": [True, False]})
    assert labels("calibsft", kept, mix=0.1) == [Fraction(91, 100), Fraction(3, 100)]


def test_uait_is_the_mean_probability_of_the_tokens_to_six_decimals() -> None:
    logprobs = [log(0.25), -0.1, 0.0, -40.0, None]
    rows = pl.DataFrame({"mean-logprob": logprobs}, schema={"mean-logprob": pl.Float32})
    found = labels("uait", rows)
    assert found[0] == Fraction(1, 4) and found[2:] == [1, 0, None]
    assert found[1] == Fraction(round(exp(rows["mean-logprob"][1]) * 10**6), 10**6)


def test_sayself_labels_correct_responses_alone_with_the_share_of_their_cluster() -> None:
    rows = pl.DataFrame(
        {"correct": [True, False, True], "cluster-share_k": [4, 4, None], "cluster-share_n": [10, 10, 10]}
    )
    assert labels("sayself", rows) == [Fraction(2, 5), None, None]


def test_lovec_is_the_score_of_the_judge() -> None:
    assert labels(
        "lovec", pl.DataFrame({"judge-score_k": [10, 7, 0, None], "judge-score_n": [10, 10, 1, None]})
    ) == [1, Fraction(7, 10), 0, None]


def test_an_unknown_target_is_refused_with_the_nearest_name() -> None:
    rated = BOTH.with_columns(reason=pl.lit("ok"))
    with pytest.raises(InputError, match="unknown target 'calibsf'; did you mean 'calibsft'"):
        label_rows(rated, TargetSettings(name="calibsf"), FORMATS["probability"], None, "pool")


def test_every_target_is_listed_under_its_own_name() -> None:
    assert [target.name for target in TARGETS.values()] == list(TARGETS)
    assert list(TARGETS) == ["calibsft", "csft", "uait", "sayself", "lovec", "stated", "shuffled"]


def test_labels_are_computed_once_per_distinct_input_and_stay_in_order() -> None:
    seen: list[int] = []

    def half(value: int) -> Fraction:
        seen.append(value)
        return Fraction(value, 2)

    rows = pl.DataFrame({"v": [3, None, 1, 3, 2, 1]})
    found = once_per(rows, ("v",), half)
    assert found.rows() == [(3, 2), (None, None), (1, 2), (3, 2), (1, 1), (1, 2)]
    assert sorted(seen) == [1, 2, 3]


@pytest.mark.parametrize(
    "name, values",
    [
        ("probability", ("0.25", "0.25", "0.26")),
        ("probability-0.05", ("0.25", "0.25", "0.25")),
        ("integer", ("2", "2", "2")),
        ("linguistic", ("low", "low", "low")),
    ],
)
def test_continuous_labels_are_grouped_by_what_the_format_writes(name: str, values: tuple[str, ...]) -> None:
    close, chosen = [Fraction(250_001, 10**6), Fraction(254_999, 10**6), Fraction(255, 1000)], FORMATS[name]
    assert [on_grid(label, chosen) for label in close] == [chosen.value_of(text) for text in values]
    assert [exact_value(label, chosen) for label in close] == close


GRADED = pl.DataFrame(
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
    rated = rate_questions(GRADED, "pool")
    assert rated.filter(pl.col("dataset") == "")["k"].to_list() == [2, 2, 2, 2]
    assert rated["n"].to_list() == [4, 4, 4, 4, 2, 2]
    assert rated["correct"].to_list() == [True, False, False, True, False, True]


def test_a_truncated_response_that_was_made_to_answer_counts_by_its_answer() -> None:
    ending = pl.Series(["finished", "forced", "forced", "finished", "finished", "finished"])
    rated = rate_questions(GRADED.with_columns(ending=ending), "pool")
    assert rated.filter(pl.col("dataset") == "")["k"].to_list() == [3, 3, 3, 3]
    assert rated["correct"].to_list() == GRADED["correct"].to_list()


def test_the_same_id_in_two_datasets_is_two_questions() -> None:
    rated = rate_questions(GRADED, "pool").filter(pl.col("dataset") == "b")
    assert rated["k"].to_list() == [1, 1] and rated["n"].to_list() == [2, 2]


def test_questions_with_ungraded_responses_are_left_out_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    ungraded = GRADED.with_columns(correct=pl.Series([True, None, False, True, False, True]))
    rated = rate_questions(ungraded, "pool")
    assert rated["dataset"].unique().to_list() == ["b"]
    assert "warning: pool: 1 questions have ungraded responses and are left out" in capsys.readouterr().err
