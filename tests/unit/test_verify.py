"""The verdicts of the graders: what is right, what is wrong, and what cannot be read."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from calibsft.errors import InputError
from calibsft.schema import Grade
from calibsft.verify import GRADERS, GradeItem, VerifierPool, grade

VECTORS = Path(__file__).parents[3] / "shared/data/vectors"


@pytest.fixture(scope="module")
def pool() -> Iterator[VerifierPool]:
    with VerifierPool(workers=1, seconds=20) as pool:
        yield pool


def judge(pool: VerifierPool, kind: str, gold: str | tuple[str, ...], answer: str) -> Grade:
    return pool.grade_all([GradeItem(kind, gold, answer)])[0]


EQUAL = [
    ("42", "42"),
    ("42", " 42. "),
    ("42", "042"),
    ("1000", "1,000"),
    ("1000", "1 000"),
    ("1{,}000", "1000"),
    ("0.4", ".40"),
    ("-3", "−3"),
    (r"\sqrt{8}", r"2\sqrt{2}"),
    ("(1,2)", "(1, 2)"),
    ("(12,102)", "(12, 102)"),
    ("x^2+1", "1+x^2"),
    ("2.75e11", r"2.75 \times 10^{11}"),
    (r"2.75 \times 10^{11}", "2.75E+11"),
    ("1.2e-9", "0.0000000012"),
    (r"\frac{1}{2}", "0.5"),
    (r"\frac{1}{3}", "0.333333"),
    ("7/2", "3 1/2"),
    ("5", r"\boxed{5}"),
    ("5", r"$\boxed{5}$"),
    ("5", r"\(5\)"),
    ("5", r"Adding up, we get \boxed{5} apples, and no more."),
    ("5", "The answer is 5."),
    ("5", "The answer is: $5$"),
    ("5", "x = 5"),
    ("x=5", "5"),
    (r"\$36", "36 dollars"),
    ("36", "$36"),
    ("90", r"90^\circ"),
    ("5", r"5\text{ cm}"),
    ("28", r"28\%"),
    ("A", r"\text{(A)}"),
    (r"\text{Evelyn}", "Evelyn"),
    (r"\frac{\pi}{2}", "pi/2"),
    ("1,2", "2, 1"),
    ("x=1 or x=2", "x=2 or x=1"),
    (r"\pm 2", "-2, 2"),
    (r"[0,\infty)", r"x \ge 0"),
    (r"x \ge 0", r"[0,\infty)"),
    ("3", r"\log_2 8"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}"),
    # math-verify has no reading of this gold, so the text decides.
    (r"E_{1}, E_{2}", r"E_{1},E_{2}"),
]

UNEQUAL = [
    ("42", "43"),
    ("11", "1 1"),
    ("-1", "1"),
    ("1000001", "1000000"),
    ("1.2e-9", "0.0000000013"),
    ("0.0000001", "0.0000002"),
    ("2x+z=1", "1"),
    ("(1,2)", "(2,1)"),
    ("[0,1)", "[0,1]"),
    ("6", "The answer is not 6"),
    (r"E_{1}, E_{2}", r"E_{2}, E_{1}"),
]

HEDGES = [
    ("5", "5 or 6"),
    ("6", "5 or 6"),
    ("5", "5, 6"),
    ("5", "5, 5"),
    ("5", r"\{5, 5\}"),
    ("5", r"5 \text{ or } 6"),
    ("5", r"\text{5 or 6}"),
    ("6", "5 or $6$"),
    ("6", "$5$ or $6$"),
    ("6", "5 and $6$"),
    ("6", r"5 or \boxed{6}"),
    ("6", r"\boxed{5} or \boxed{6}"),
    ("6", "Either five or the answer is 6"),
    ("6", "The answer is 5 or it is 6"),
    ("11", "5 6"),
    ("5", r"\pm 5"),
]


@pytest.mark.parametrize("gold, answer", EQUAL)
def test_math_accepts_the_same_value_in_another_notation(pool: VerifierPool, gold: str, answer: str) -> None:
    assert judge(pool, "math", gold, answer) is Grade.CORRECT


@pytest.mark.parametrize("gold, answer", UNEQUAL)
def test_math_refuses_another_value(pool: VerifierPool, gold: str, answer: str) -> None:
    assert judge(pool, "math", gold, answer) is Grade.INCORRECT


@pytest.mark.parametrize("gold, answer", HEDGES)
def test_several_offered_values_are_not_one_right_answer(pool: VerifierPool, gold: str, answer: str) -> None:
    assert judge(pool, "math", gold, answer) is Grade.INCORRECT


@pytest.mark.parametrize("answer", ["", " \n", "\u200b", r"\frac{", "$$", "٥"])
def test_math_says_when_it_cannot_read_the_answer(pool: VerifierPool, answer: str) -> None:
    assert judge(pool, "math", "5", answer) is Grade.UNPARSED_ANSWER


@pytest.mark.parametrize("gold", ["", " ", "$$ $$", r"\frac{", "9^{9^{9^9}}", "7" * 5000])
def test_an_unreadable_gold_is_unscored_even_for_an_equal_answer(pool: VerifierPool, gold: str) -> None:
    for answer in (gold, "5", ""):
        assert judge(pool, "math", gold, answer) is Grade.UNPARSED_GOLD


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


@pytest.mark.skipif(not VECTORS.is_dir(), reason="the shared test vectors are not here")
def test_math_agrees_with_math_verify_where_its_cases_are_about_equivalence(pool: VerifierPool) -> None:
    rows = [json.loads(line)["params"] for line in (VECTORS / "mathverify_cases.jsonl").open()]
    # Longer texts test how math-verify finds an answer in a solution; options test what is not the default.
    cases = [
        row for row in rows if "gold" in row and "strict" not in row and len(row["gold"] + row["pred"]) < 300
    ]
    grades = pool.grade_all([GradeItem("math", row["gold"], row["pred"]) for row in cases])
    expected = [bool(row.get("expected", row.get("result"))) for row in cases]
    agreeing = sum((got is Grade.CORRECT) == want for got, want in zip(grades, expected, strict=True))
    assert len(cases) > 90
    assert agreeing / len(cases) >= 0.94
