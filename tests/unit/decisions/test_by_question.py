"""One response per question and random halves: which rows are drawn, and what the draw may depend on."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibsft.decisions.by_question import ByQuestion
from calibsft.errors import InputError
from calibsft.metrics.evaluate import id_series


def table(sizes: list[int]) -> pl.DataFrame:
    """So many responses to each question, every one with a number of its own, in no order."""
    question = [f"q{q}" for q, size in enumerate(sizes) for _ in range(size)]
    rows = pl.DataFrame({"question": question, "response": range(len(question))})
    return rows.sample(fraction=1, shuffle=True, seed=len(question))


def grouped(rows: pl.DataFrame, choice: str | None) -> ByQuestion:
    return ByQuestion.of(rows, choice, rows["question"])


def test_the_first_response_is_the_first_of_the_file() -> None:
    rows = table([3, 1, 4])
    first: dict[str, int] = {}
    for question, response in rows.iter_rows():
        first.setdefault(question, response)
    assert dict(grouped(rows, "first").one_each(seed=5).iter_rows()) == first
    backwards = dict(grouped(rows.reverse(), "first").one_each(seed=5).iter_rows())
    assert backwards != first


def test_a_random_response_depends_on_the_seed_and_not_on_the_order_of_the_rows() -> None:
    rows = table([5] * 40)
    drawn = grouped(rows, "random").one_each(seed=1)
    assert drawn.equals(grouped(rows.reverse(), "random").one_each(seed=1))
    assert drawn["question"].n_unique() == len(drawn) == 40
    assert not drawn.equals(grouped(rows, "random").one_each(seed=2))
    assert not drawn.equals(grouped(rows, "random").one_each(1, 0, 1))


@pytest.mark.parametrize("ids", [[7, 100, 20], ["b", "a10", "a9"], [("d", 1), ("c", 2), ("d", 0)]])
def test_ids_in_a_list_are_sorted_like_those_in_a_series(ids: list[object]) -> None:
    given_order = id_series([*ids, ids[0]]).to_list()
    assert given_order[0] == given_order[3] and sorted(ids) == [
        ids[number] for number in np.argsort(given_order[:3])
    ]
    # Ids without an order among them are told apart all the same.
    assert id_series([*ids, None, 2.5]).n_unique() == 5


def test_every_response_is_drawn_equally_often() -> None:
    rows = table([4] * 4000).with_columns(place=pl.col("response") % 4)
    counts = grouped(rows, "random").one_each(seed=0)["place"].value_counts()["count"]
    # 1,000 each, with a standard deviation of 27
    assert len(counts) == 4 and counts.is_between(880, 1120).all()


@given(
    st.lists(st.integers(1, 4), min_size=2, max_size=9),
    st.integers(0, 99),
    st.sampled_from(["first", "random"]),
)
def test_halves_share_no_question_and_what_is_held_out_is_complete(
    sizes: list[int], seed: int, choice: str
) -> None:
    rows = table(sizes)
    responses = grouped(rows, choice)
    for chosen, others in responses.halves(3, seed):
        assert len(chosen) == chosen["question"].n_unique() == len(sizes) // 2
        assert not set(chosen["question"]) & set(others["question"])
        rest = rows.filter(~pl.col("question").is_in(chosen["question"].implode()))
        assert sorted(others["response"]) == sorted(rest["response"])
        if choice == "first":
            assert set(chosen["response"]) <= set(responses.one_each(0)["response"])


def test_halves_differ_from_each_other_and_follow_the_seed() -> None:
    responses = grouped(table([1] * 50), None)
    halves = [
        [frozenset(chosen["question"]) for chosen, _ in responses.halves(4, seed)] for seed in (0, 0, 1)
    ]
    assert halves[0] == halves[1] != halves[2] and len(set(halves[0])) == 4


def test_repeated_questions_are_refused_by_the_first_of_them_with_reason_and_remedy() -> None:
    keys = pl.DataFrame({"dataset": ["a", "b", "b", "a", "b"], "id": ["1", "2", "1", "3", "2"]}).to_struct()
    with pytest.raises(InputError) as refused:
        ByQuestion.of(pl.DataFrame({"question": keys}), None, keys)
    told = str(refused.value)
    assert told.startswith("question 'b, 2' has several responses (1 such questions)")
    assert "err together" in told and told.endswith("--per-question first or random")
    once = keys.head(4)
    assert ByQuestion.of(pl.DataFrame({"question": once}), None, once).sizes.tolist() == [1, 1, 1, 1]


def test_an_unknown_choice_and_a_negative_seed_are_refused() -> None:
    rows = table([2, 2])
    with pytest.raises(InputError, match="'rnadom'; did you mean 'random'"):
        grouped(rows, "rnadom")
    with pytest.raises(InputError, match="seed is -1; give 0"):
        grouped(rows, "random").one_each(-1)
    with pytest.raises(InputError, match="seed is -2; give 0"):
        next(grouped(rows, "random").halves(1, -2))
