"""The rule that chooses from which similarity on two responses are one cluster."""

import numpy as np
import pytest

from calibsft.errors import InputError
from calibsft.evidence.settings import EvidenceSettings
from calibsft.evidence.similarity import MOST, Similarities
from calibsft.settings.validation import validated


def turned(*degrees: float) -> np.ndarray:
    angles = np.radians(degrees)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def test_the_rule_takes_the_similarity_that_tells_answers_apart_best() -> None:
    found = Similarities()
    # Two groups of answers, 5 degrees wide and 40 degrees apart: cos 5° is .996, cos 40° is .766.
    found.add(turned(0, 5, 45, 50), range(4), ["56", "56", "54", "54"])
    best = found.best()
    assert best is not None and (best.same, best.different, best.pairs) == (1, 0, 6)
    assert best.similarity == 0.99, "the highest of equally good ones"
    low = found.at(0.5)
    assert low is not None and (low.same, low.different) == (1, 1)


def test_a_similarity_between_two_hundredths_is_told_as_it_is() -> None:
    found = Similarities(0.985)
    found.add(turned(0, 9.9, 90), range(3), ["1", "1", "2"])  # cos 9.9° is .9851
    given, best = found.at(0.985), found.best()
    assert given is not None and (given.similarity, given.same) == (0.985, 1)
    assert best is not None and best.similarity == 0.98, "the rule chooses hundredths"


def test_equal_texts_are_alike_whatever_rounding_makes_of_their_vectors() -> None:
    found = Similarities()
    found.add(turned(0, 3, 90), [7, 7, 8], ["1", "1", "2"])
    best = found.best()
    assert best is not None and (best.similarity, best.same) == (1, 1)


def test_where_other_answers_are_the_more_similar_ones_there_is_no_choice() -> None:
    found = Similarities()
    found.add(turned(0, 50, 1), range(3), ["1", "1", "2"])
    assert found.best() is None


def test_of_a_question_with_very_many_responses_the_first_are_looked_at() -> None:
    found = Similarities()
    found.add(np.ones((5000, 1)), range(5000), ["1", "2"] * 2500)
    low = found.at(0.5)
    assert low is not None and low.pairs == MOST * (MOST - 1) // 2


def test_pairs_are_counted_within_questions_and_a_response_without_an_answer_not_at_all() -> None:
    found = Similarities()
    found.add(turned(0, 0, 90), [0, 0, 1], ["1", "1", None])
    found.add(turned(0, 60), range(2), ["1", " 2 "])
    best = found.best()
    assert best is not None and best.pairs == 2
    assert str(best).startswith(
        "similarity 1 links 100% of the pairs of responses with the same answer and 0%"
    )


def test_answers_are_the_same_whatever_their_case_and_white_space() -> None:
    found = Similarities()
    found.add(turned(0, 0, 90), range(3), ["New  York", " new york ", "Rome"])
    best = found.best()
    assert best is not None and (best.same, best.different, best.pairs) == (1, 0, 3)


@pytest.mark.parametrize("answers", [["1", "1"], ["1", "2"], ["1", None], []])
def test_without_pairs_of_both_kinds_there_is_no_choice(answers: list[str | None]) -> None:
    found = Similarities()
    found.add(turned(*range(len(answers))), range(len(answers)), answers)
    assert found.best() is None and found.at(0.98) is None


@pytest.mark.parametrize("wrong", [0, 1.01, "nan", "automatic", None, "-1"])
def test_what_is_no_cosine_is_refused_in_one_sentence(wrong: object) -> None:
    with pytest.raises(
        InputError, match=r"evidence\.similarity = .* is not a cosine; write a number above 0"
    ):
        validated(EvidenceSettings, {"similarity": wrong}, "evidence")


def test_a_cosine_may_be_written_as_text() -> None:
    assert EvidenceSettings(similarity="0.9").similarity == 0.9  # type: ignore[arg-type]
    assert EvidenceSettings(similarity="auto").similarity == "auto"
