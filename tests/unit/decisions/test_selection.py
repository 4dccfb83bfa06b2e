"""Conformal selection: p-values counted by hand, ties, what is never kept, and Benjamini-Hochberg."""

import numpy as np
import pytest

from calibsft.decisions import select
from calibsft.decisions.selection import benjamini_hochberg
from calibsft.errors import InputError


def test_a_p_value_counts_the_wrong_labelled_answers_that_are_no_less_sure() -> None:
    found = select(
        [0.9, 0.8, 0.7, 0.7], [True, False, False, True], list("abcd"), [0.95, 0.8, 0.75, 0.7, 0.1], 0.5
    )
    # Wrong ones at 0.8 and 0.7; four labelled answers.
    assert found.p_values.tolist() == [1 / 5, 2 / 5, 2 / 5, 3 / 5, 3 / 5]
    assert (found.labelled, found.wrong, found.guarantee) == (4, 2, "expectation")


def test_the_kept_answers_are_those_that_benjamini_and_hochberg_reject() -> None:
    random = np.random.default_rng(0)
    p_values = random.beta(0.5, 3, 200)
    kept = benjamini_hochberg(p_values, 0.2)
    order = np.argsort(p_values)
    largest = max(
        (rank for rank in range(1, 201) if p_values[order[rank - 1]] <= 0.2 * rank / 200), default=0
    )
    assert 0 < largest < 200 and set(np.flatnonzero(kept)) == set(order[:largest])
    assert not benjamini_hochberg(np.array([0.5, 0.9]), 0.1).any()


def test_an_answer_without_a_confidence_is_never_kept() -> None:
    labelled = [0.9] * 300, [True] * 300, range(300)
    found = select(*labelled, [0.9] * 50 + [None] * 50, 0.1)
    assert found.keep.tolist() == [True] * 50 + [False] * 50 and found.lowest == 0.9
    assert found.p_values[50:].tolist() == [1.0] * 50
    # A labelled answer without one counts below all others, also where it is wrong.
    mixed = select([0.9] * 300 + [None] * 10, [True] * 300 + [False] * 10, range(310), [0.0], 0.5)
    assert mixed.p_values.tolist() == [1 / 311]


def test_where_nothing_is_sure_enough_nothing_is_kept() -> None:
    found = select([0.9] * 20, [False] * 20, range(20), [0.9] * 10, 0.1)
    assert not found.keep.any() and found.lowest is None


def test_the_order_of_the_rows_does_not_matter() -> None:
    random = np.random.default_rng(1)
    stated, batch = random.random(400), random.random(90)
    right, order = random.random(400) < stated, random.permutation(400)
    found = select(stated, right, range(400), batch, 0.2)
    again = select(stated[order], right[order], order, batch[::-1], 0.2)
    assert found.keep.any() and (again.keep[::-1] == found.keep).all()


def test_several_labelled_answers_to_a_question_are_refused_or_one_of_them_counts() -> None:
    with pytest.raises(InputError, match="question 'a' has several responses"):
        select([0.9, 0.8], [True, False], ["a", "a"], [0.9], 0.1)
    assert select([0.9, 0.8], [True, False], ["a", "a"], [0.9], 0.1, "first").labelled == 1


@pytest.mark.parametrize("risk", [0, 1, float("nan")])
def test_a_risk_out_of_range_is_refused(risk: float) -> None:
    with pytest.raises(InputError, match="give a number between 0 and 1"):
        select([0.9], [True], ["a"], [0.9], risk)


def test_a_confidence_out_of_range_in_the_batch_is_refused_by_its_place() -> None:
    with pytest.raises(InputError, match=r"confidence at index 1 is 1\.5"):
        select([0.9], [True], ["a"], [0.9, 1.5], 0.1)
