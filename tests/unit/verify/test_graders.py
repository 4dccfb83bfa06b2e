"""What all graders share, and the grader that compares text as it is."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from calibsft.errors import InputError
from calibsft.schema import Grade
from calibsft.verify import GRADERS, GradeItem, VerifierPool, grade


@pytest.fixture(scope="module")
def pool() -> Iterator[VerifierPool]:
    with VerifierPool(workers=1, seconds=20) as pool:
        yield pool


def judge(pool: VerifierPool, kind: str, gold: str | tuple[str, ...], answer: str) -> Grade:
    return pool.grade_all([GradeItem(kind, gold, answer)])[0]


@pytest.mark.parametrize(
    "gold, answer, expected",
    [
        ("a  b", " a b\n", Grade.CORRECT),
        ("a b", "a\n\tb", Grade.CORRECT),
        ("a b", "A b", Grade.INCORRECT),
        ("ab", "a b", Grade.INCORRECT),
        ("5", "5.0", Grade.INCORRECT),
        ("a", " \t", Grade.UNPARSED_ANSWER),
        (" ", "a", Grade.UNPARSED_GOLD),
        ("", "", Grade.UNPARSED_GOLD),
    ],
)
def test_exact_ignores_white_space_and_nothing_else(gold: str, answer: str, expected: Grade) -> None:
    assert grade("exact", gold, answer) is expected


@pytest.mark.parametrize(
    "golds, answer, expected",
    [
        (("4", "5"), "5", Grade.CORRECT),
        (("", r"\sqrt{8}"), r"2\sqrt{2}", Grade.CORRECT),
        (("", "4"), "5", Grade.INCORRECT),
        (("", "4"), "", Grade.UNPARSED_ANSWER),
        (("", r"\frac{"), "5", Grade.UNPARSED_GOLD),
        ((), "5", Grade.UNPARSED_GOLD),
    ],
)
def test_any_alias_may_match_and_gold_is_unparsed_only_if_all_are(
    pool: VerifierPool, golds: tuple[str, ...], answer: str, expected: Grade
) -> None:
    assert judge(pool, "math", golds, answer) is expected


def test_an_unknown_grader_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(InputError, match=r"unknown grader 'mth'; did you mean 'math'\?"):
        grade("mth", "1", "1")


def test_grade_reaches_computer_algebra_from_a_plain_call() -> None:
    assert grade("math", (r"\sqrt{3}", r"\sqrt{8}"), r"2\sqrt{2}") is Grade.CORRECT


def test_graders_are_listed_under_their_own_names() -> None:
    assert {name: grader.name for name, grader in GRADERS.items()} == {name: name for name in GRADERS}


def test_import_loads_no_computer_algebra() -> None:
    code = "import sys, calibsft.verify; print({'sympy', 'math_verify', 'torch'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"
