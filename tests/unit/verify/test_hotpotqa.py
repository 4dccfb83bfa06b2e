"""HotpotQA's grader: right in either of two readings, as words or as a value."""

from collections.abc import Iterator

import pytest

from calibsft.benchmarks import get_benchmark
from calibsft.schema import Grade
from calibsft.verify import GRADERS, GradeItem, VerifierPool

GRADER = get_benchmark("hotpotqa").grader


@pytest.fixture(scope="module")
def pool() -> Iterator[VerifierPool]:
    with VerifierPool(workers=1) as pool:
        yield pool


@pytest.mark.parametrize(
    "gold, answer, expected",
    [
        ("1/2", "0.5", Grade.CORRECT),
        ("1,200", "1200", Grade.CORRECT),
        ("3.5 million", "3,500,000", Grade.CORRECT),
        (r"\sqrt{8}", r"2\sqrt{2}", Grade.CORRECT),
        ("The Beatles", "beatles", Grade.CORRECT),
        ("yes", "Yes.", Grade.CORRECT),
        ("9,984 ft", "9984 ft.", Grade.CORRECT),
        ("yes", "no", Grade.INCORRECT),
        ("1/2", "0.6", Grade.INCORRECT),
        ("1977", "1977 or 1978", Grade.INCORRECT),
        ("Barack Obama", r"\infty", Grade.INCORRECT),
        ("Animorphs", "x", Grade.INCORRECT),
        ("yes", " ", Grade.UNPARSED_ANSWER),
        (" ", "yes", Grade.UNPARSED_GOLD),
    ],
)
def test_words_or_values_that_are_the_same_are_right(
    pool: VerifierPool, gold: str, answer: str, expected: Grade
) -> None:
    assert pool.grade_all([GradeItem(GRADER, gold, answer)]) == [expected]


def test_what_needs_computer_algebra_is_left_to_a_worker() -> None:
    assert GRADERS[GRADER].grade_here(GradeItem(GRADER, r"\sqrt{8}", r"2\sqrt{2}")) is None
    assert GRADERS[GRADER].grade_here(GradeItem(GRADER, "The Beatles", "beatles")) is Grade.CORRECT
