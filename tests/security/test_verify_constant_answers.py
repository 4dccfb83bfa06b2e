"""No single answer is right everywhere, and no verdict depends on what was graded before, beside or how often."""

import json
import random
import re
from collections.abc import Iterator
from itertools import combinations, product

import pytest

from calibsft.schema import Grade
from calibsft.verify import GRADERS, GradeItem, VerifierPool
from calibsft.verify.math.algebra import SymPy
from odd_answers import DATA, GOLDS, Scan, benchmark_questions, odd_answers

SAMPLE = 12
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the published data files are not here")

# They have no value; computer algebra takes their difference from a number for zero if it is asked often enough.
WORTHLESS = [
    *(r"\sqrt{2}\infty^{\pi}", r"2^{\infty}", r"\sqrt{\infty}", r"|\infty|", r"\infty\%", r"\infty!", r"x^{\infty}", "3<2", "2<3"),
    *(r"\frac{0}{0}", r"\frac{1}{0}", r"\infty-\infty", r"0\cdot\infty", r"1^{\infty}", r"\sin(\infty)", r"\log 0", r"\tan(\frac{\pi}{2})"),
    *(r"\frac{1}{\frac{1}{0}}", r"\frac{x}{x-x}", "x<x", "0=1", "x+1=x", "(-1)!", r"e^{-\infty}", r"\frac{5}{\infty}", r"5+\frac{1}{\infty}"),
]  # fmt: skip
FINITE = [
    gold for gold in GOLDS if not any(sign in gold for sign in (r"\infty", "<", ">", r"\ge", r"\le", "R"))
][::3]
NAMES = [
    *("Paris", "London", "Rome", "Honolulu", "politician", "actor", "composer", "football", "tennis", "The Beatles", "Abba", "The The"),
    *("1977", "42", "3.5 million", "12 June 1944", "yes", "no", "Washington, D.C.", "Simon and Garfunkel", "red", "blue", "drama"),
]  # fmt: skip
TRIPLES = [", ".join(words) for words in product(("yes", "no", "unknown"), repeat=3)]
LISTS = [", ".join(items) for items in product("123", ("soy-milk", "tea"), ("police-officer", "chef"))]
VALUES = ["0", "1", "2", "3", "4", "6", "10", "tetrahedron", "triangle", "square", "square pyramid"]
TEXT_GOLDS = {
    "exact": NAMES, "text": NAMES, "hotpotqa": NAMES, "contains": NAMES, "set": NAMES, "drop": NAMES, "judge": NAMES, "livebench": VALUES,
    "livebench-web-of-lies": TRIPLES, "livebench-zebra": LISTS, "livebench-zebra-word": NAMES, "livebench-spatial": VALUES,
}  # fmt: skip
# The benchmark takes a square pyramid for a square.
SAME = {("square", "square pyramid")}
SHAPES = ["{}", "**{}**", "***{}***", r"\boxed{{{}}}", "<solution>{}</solution>"]
JOINTS = [", ", "; ", " ", "\n", " or ", " and ", "/", "|", " = "]


@pytest.fixture(scope="module")
def pool() -> Iterator[VerifierPool]:
    with VerifierPool(workers=1) as pool:
        yield pool


@pytest.fixture(scope="module")
def scan() -> Scan:
    return Scan()


def _value(gold: str) -> str:
    """What stands behind a name: `0` is an answer to `A=0` and to `f(x)=0`, which are not answers to each other."""
    return re.sub(r"^\s*[A-Za-z](?:\([a-z]\))?\s*=", "", gold.strip("$"))


def unequal(pool: VerifierPool, kind: str, golds: list[str]) -> list[tuple[str, str]]:
    """The pairs of golds neither of which is an answer to the other, whatever they name their values."""
    pairs = list(combinations(golds, 2))
    both_ways = [(a, b) for pair in pairs for a, b in (pair, pair[::-1])]
    asked = [(GradeItem(kind, a, b), GradeItem(kind, _value(a), _value(b))) for a, b in both_ways]
    items = [first + second for first, second in zip(asked[::2], asked[1::2], strict=True)]
    grades = [pool.grade_all(both) for both in items]
    return [p for p, both in zip(pairs, grades, strict=True) if Grade.CORRECT not in both and p not in SAME]


@pytest.mark.parametrize("answer", WORTHLESS)
def test_an_answer_without_a_value_is_right_for_no_gold_that_has_one(pool: VerifierPool, answer: str) -> None:
    grades = pool.grade_all([GradeItem("math", gold, answer) for gold in FINITE])
    assert [gold for gold, grade in zip(FINITE, grades, strict=True) if grade is Grade.CORRECT] == []
    assert pool.grade_all([GradeItem("math", answer, f"${answer}$")]) == [Grade.CORRECT]


@pytest.mark.parametrize(
    "gold, answer, right",
    [
        (r"\infty", r"+\infty", True),
        (r"\infty", "infinity", True),
        (r"-\infty", "-∞", True),
        (r"\infty", r"-\infty", False),
        (r"\infty", r"2\infty", False),
        (r"\infty", r"\infty^2", False),
        (r"(-\infty,3]", r"x\le 3", True),
        (r"(-\infty,3)", r"-\infty<x<3", True),
        (r"(-\infty,3]", "(-oo, 3]", True),
        (r"[0,\infty)", "x>=0", True),
        (r"(-\infty,3]", r"(-\infty,3)", False),
        (r"\mathbb{R}", r"(-\infty,\infty)", True),
        (r"\emptyset", r"\{\}", True),
        (r"\emptyset", r"(3,2)", False),
        (r"\emptyset", "x<x", False),
        ("(3,2)", r"\emptyset", False),
        ("x^2+1=0", "x^2+2=0", False),
        ("x^2+1=0", "2x^2+2=0", True),
        ("xy=1", r"y=\frac{1}{x}", True),
        # Rounded, they have the same value at many points.
        (r"\lfloor\sqrt{n-1}\rfloor", "0", False),
        (r"\lfloor\log_2 n\rfloor+1", "1", False),
        (r"\lceil\frac{n}{9}\rceil", "1", False),
        (r"\lfloor\log_2 n\rfloor+1", r"1+\lfloor\log_2 n\rfloor", True),
        (r"2\lfloor\frac{n}{2}\rfloor", r"\lfloor\frac{n}{2}\rfloor\cdot 2", True),
        (r"\lfloor 5.5\rfloor", "5", True),
        ("0", r"\log_0 7", False),
        ("0", r"\log_0 00^0", False),
        ("0", r"\log_7 1", True),
        # Computer algebra rounds what it cannot calculate exactly, and then both are zero.
        (r"\frac{30! \cdot 1989!}{2020!}", r"\log 0^{\gcd(0,0)}", False),
    ],
)
def test_infinity_and_nothing_equal_their_own_form(
    pool: VerifierPool, gold: str, answer: str, right: bool
) -> None:
    assert (pool.grade_all([GradeItem("math", gold, answer)]) == [Grade.CORRECT]) is right


def test_no_odd_answer_is_right_for_two_unequal_golds(pool: VerifierPool, scan: Scan) -> None:
    found = {}
    for number, answer in enumerate(odd_answers(1_500)):
        accepted = scan.accepted(answer, random.Random(number).sample(GOLDS, SAMPLE))
        if len(accepted) > 1 and (pairs := unequal(pool, "math", accepted)):
            found[answer] = pairs
    assert found == {}


@needs_data
@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_no_odd_answer_is_right_for_two_unequal_golds_of_the_benchmarks(
    pool: VerifierPool, scan: Scan
) -> None:
    benchmarks = benchmark_questions("math", "hotpotqa")
    golds = sorted(
        {gold for _, questions in benchmarks for q in questions for gold in q.golds if not q.tolerance}
    )
    found = {}
    for number, answer in enumerate(odd_answers(5_000)):
        accepted = scan.accepted(answer, random.Random(number).sample(golds, 150))
        if len(accepted) > 1 and (pairs := unequal(pool, "math", accepted)):
            found[answer] = pairs
    assert found == {}


@pytest.mark.parametrize("kind", TEXT_GOLDS)
def test_no_list_of_golds_and_no_odd_text_is_right_for_two_of_them(pool: VerifierPool, kind: str) -> None:
    golds = TEXT_GOLDS[kind]
    # A few words in a row may be a sentence, of which the benchmark only asks that it holds the gold.
    counts = (15, 20) if kind == "contains" else (5, 6, 7)
    lists = [joint.join(map(shape.format, golds[:n])) for joint, shape, n in product(JOINTS, SHAPES, counts)]
    whole = [
        *(joint.join(golds) for joint in JOINTS),
        json.dumps(golds),
        "1 2 3, soy-milk tea, police-officer chef",
    ]
    answers = [*odd_answers(60 if GRADERS[kind].isolated else 600), *lists, *whole]
    grades = pool.grade_all([GradeItem(kind, gold, answer) for answer, gold in product(answers, golds)])
    found = {}
    for number, answer in enumerate(answers):
        verdicts = grades[number * len(golds) : (number + 1) * len(golds)]
        accepted = [gold for gold, grade in zip(golds, verdicts, strict=True) if grade is Grade.CORRECT]
        if len(accepted) > 1 and (pairs := unequal(pool, kind, accepted)):
            found[answer] = pairs
    assert found == {}


def test_every_grader_of_text_is_among_them() -> None:
    assert set(TEXT_GOLDS) == set(GRADERS) - {"math"}


def test_verdicts_do_not_depend_on_order_repetition_or_company(pool: VerifierPool) -> None:
    answers = [
        *WORTHLESS,
        "0.5",
        r"\frac{x^2-1}{x-1}",
        "3x+2",
        r"y=\frac{1}{x}",
        r"\sqrt{4+4\sqrt{2}+2}",
        "6 - 5i",
        r"(0,1)\cup(1,\infty)",
    ]
    items = [GradeItem("math", gold, answer) for gold, answer in product(GOLDS[::12], answers)]
    expected = dict(zip(items, pool.grade_all(items), strict=True))
    shuffled = random.Random(0).sample(items, len(items))
    for order in (shuffled, shuffled[::-1], items[::2] + items):
        assert dict(zip(order, pool.grade_all(order), strict=True)) == {
            item: expected[item] for item in order
        }
    with VerifierPool(workers=2) as others:
        for item in shuffled[:40]:
            assert others.grade_all([item]) == [expected[item]]


def test_no_comparison_knows_of_the_one_before() -> None:
    from sympy.core import random as drawn

    def state() -> tuple[float, int]:
        session = SymPy()
        (symbol,) = session._read("x^2+1").free_symbols
        kept.append(symbol)
        return drawn.random(), drawn._assumptions_rng.getrandbits(64)

    kept: list[object] = []
    assert state() == state()
    assert kept[0] is not kept[1]
