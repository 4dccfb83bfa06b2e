"""Hostile answers: they end, they execute nothing, and they cost the others nothing, whatever the grader."""

import builtins
import os
import sys
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import pytest

from calibsft.schema import Grade
from calibsft.verify import GRADERS, GradeItem, VerifierPool
from calibsft.verify.math import grade as grade_math
from calibsft.verify.math.algebra import prepare
from calibsft.verify.math.limits import beyond_algebra, too_large

HONEST = (r"\frac{1}{2}x", r"\frac{x}{2}")
WORKERS = 2

# Refused by their text alone.
OVERSIZED = [
    "9^{9^{9^9}}",
    "10^{10^{10}}",
    "9^9^9^9",
    "9**9**9",
    r"\left(9^{999}\right)^{999}",
    r"e^{e^{e^{e^e}}}",
    "x^{999999}",
    "3000000!",
    "(3000000)!",
    "10^9!",
    "9!!!",
    "((9!)!)!",
    "((((((9!)!)!)!)!)!)",
    r"\binom{10^9}{5\cdot10^8}",
    r"\binom{1000000000}{500000000}",
    r"\sum_{k=1}^{10^9} k",
    r"\prod_{k=1}^{1000000} k",
    "7" * 10**6,
    "(" * 21,
    r"\frac{" * 300,
    "\0" * 2001,
    "1," * 2000,
]

# Sound, but only compared as text.
UNEVALUATED = [
    r"\int_0^1 \int_0^1 \sin(x^x) e^{y^y} dx dy",
    r"\lim_{x\to 0} \frac{\sin(\tan x)-\tan(\sin x)}{x^7}",
    r"\sum_{i=1}^{999}\sum_{j=1}^{999} ij",
    r"\prod_{p=1}^{500}(x+p)",
    r"\det \begin{pmatrix}a&b\\c&d\end{pmatrix}",
    "+".join(f"x_{{{n}}}" for n in range(100)),
    "2015!!",
]

# Expanded, simplified or solved, they would take for ever.
EXPLOSIVE = [
    "(x+y+z+1)^{200}",
    "((x+1)^{50}+1)^{50}",
    r"(\sqrt{2}+\sqrt{3}+\sqrt{5}+\sqrt{7})^{40}",
    "(1+i)^{4000}",
    r"10^{\frac{10^{10}}{1}}",
    "2^{1000!}",
    r"\Gamma(10^9)",
    r"\exp(\exp(\exp(10)))",
    r"\frac{1}{1+" * 18 + "x" + "}" * 18,
    r"\begin{pmatrix}(x+y+z+1)^{200}\\2\end{pmatrix}",
    "(x+y+z+1)^{200}=0",
    "x^{50}+y^{50}=(x+y)^{49}+z",
    r"\sin(x^y)+e^{xy}=\cos(xy)",
    "x^{20}-3x^7+x-1 > 0",
    ",".join(rf"\sqrt{{{n}}}" for n in range(60)),
]

# Neither oversized nor explosive, but likely to confuse a parser.
ODD = [
    "1e999999",
    "$" * 1999,
    "{" * 20,
    "\0" * 1999,
    "\u202e" * 100,
    "\u200b" * 1999,
    "nan",
    "zoo",
    "\ud800",
    "x" + "\udfff" * 100,
    "\\",
    "\\" * 1999,
    "😀" * 20,
    "½" * 600,
    "√" * 600,
    r"\boxed{" * 19,
    "$5$" * 600,
    "or " * 600,
    "**" * 900,
    "^(" * 20,
    "- " * 900 + "1",
    "minus " * 300 + "1",
    "five " * 390,
    "#### " * 390,
    "is the answer " * 140,
    "not " * 490 + r"\boxed{5}",
    r"\boxed{6}" + " and" * 490,
    r"\boxed{6}" + "$) ]" * 490,
    r"\boxed{5}" + " \\dots" * 320 + " 6",
    "6" + " cm/s" * 390,
    "6" + r"\text{ m}" * 220,
    "6 " + "confidence " * 180,
    "USD " * 490 + "6",
    "£1,1" * 490,
    "a" * 10**6,
    "5 " * 10**5,
    "<solution>" * 10**5,
    "yes, no, " * 10**5,
    "[" * 10**5,
    '{"a":' * 10**5,
    "-" * 10**6,
]

CODE = [
    "__import__('os').system('touch marker')",
    r"$__import__('os').system('touch marker')$",
    r"\text{open('marker', 'w')}",
    "().__class__.__base__.__subclasses__()",
    r"\immediate\write18{touch marker}",
    "[open('marker', 'w')]",
    "{{7*7}}{% import os %}",
    "eval(compile('open(\"marker\",\"w\")','','exec'))",
    "Integer(open('marker','w'))",
    r"\sin(__import__('os').system('touch marker'))",
    "lambda: open('marker', 'w')",
]

# Over and over, where a pattern might try each beginning with each end.
REPEATED = [
    *("9", "9.", "9 ", "a", "a ", "the ", "and ", ", ", "\n", "*", "**a", "***a", "**a** ", "<solution>", "</think>", r"\boxed{"),
    *("yes, ", "[", '["a",', "1e", "9-", "{", "$a", r"\text{", "1,", "=", " cm", "is ", "²", "\u200b"),
]  # fmt: skip

CORPUS = OVERSIZED + UNEVALUATED + EXPLOSIVE + ODD + CODE


@pytest.fixture(scope="module")
def others() -> int:
    """How many processes earlier tests have left running."""
    return descendants()


@pytest.fixture(scope="module")
def pool(others: int) -> Iterator[VerifierPool]:
    with VerifierPool(workers=WORKERS) as pool:
        yield pool


def both_ways(texts: list[str], kind: str = "math") -> list[GradeItem]:
    return [GradeItem(kind, *pair) for text in texts for pair in (("5", text), (text, "5"))]


def descendants() -> int:
    """How many processes this one has started, directly or not."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            name_ends = status.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        parents[int(status.parent.name)] = int(name_ends[1])
    ours, before = {os.getpid()}, 0
    while len(ours) > before:
        before = len(ours)
        ours |= {pid for pid, parent in parents.items() if parent in ours}
    return len(ours) - 1


@pytest.mark.parametrize("text", OVERSIZED)
def test_plainly_oversized_text_is_refused_before_parsing(text: str) -> None:
    grades = [GRADERS["math"].grade_here(item) for item in both_ways([text])]
    assert grades == [Grade.TOO_LARGE, Grade.UNPARSED_GOLD]


@pytest.mark.parametrize("text", UNEVALUATED)
def test_what_is_not_worth_evaluating_is_only_compared_as_text(text: str) -> None:
    assert beyond_algebra(text)
    item = GradeItem("math", "5", text)
    assert GRADERS["math"].grade_here(item) is Grade.INCORRECT
    assert GRADERS["math"].grade_here(GradeItem("math", text, f"${text}$")) is Grade.CORRECT


@pytest.mark.parametrize(
    "text",
    [
        "2^{2024}",
        "2^{2^{2^2}}",
        "2023!",
        "(3!)!",
        "5!6!7!",
        "(2n-1)!!",
        "10^{-19}",
        "x^{100}",
        "(x-1)^{2023}",
        "7" * 300,
        "e^{-x^2}",
        r"\binom{4030}{2015}",
        r"\binom{2037171}{2019}",
        r"\frac{2a^2}{(a^2+x^2)^{\frac{3}{2}}}",
    ],
)
def test_legitimate_large_answers_pass_the_static_limits(text: str) -> None:
    assert not too_large(text)


@pytest.mark.parametrize(
    "text",
    ["(" * 2000, "^" * 2000, "1^" * 1000, "9^{9}" * 400, "1!" * 1000, "(1)!" * 500, "9" * 999 + "^9" * 500]
    + ["{" * 10**6, "!" * 2000, r"\sum" * 500, "2 " * 1000, r"\binom{1}{1}" * 150],
)
def test_the_static_limits_are_themselves_cheap(text: str) -> None:
    begin = time.process_time()
    too_large(text)
    beyond_algebra(text)
    assert time.process_time() - begin < 0.1


@pytest.mark.parametrize("kind", GRADERS)
def test_the_part_of_grading_that_runs_here_is_cheap(kind: str) -> None:
    for item in both_ways(CORPUS, kind):
        begin = time.process_time()
        GRADERS[kind].grade_here(item)
        assert time.process_time() - begin < 1, item.answer[:40]


@pytest.mark.parametrize("kind", GRADERS)
def test_long_text_is_refused_or_read_in_one_go(kind: str) -> None:
    for text, length, end in product(REPEATED, (2_000, 20_000, 200_000), ("", "x", "}", "*")):
        long = (text * length)[: length - len(end)] + end
        for item in both_ways([long], kind):
            begin = time.process_time()
            GRADERS[kind].grade_here(item)
            assert time.process_time() - begin < 1, (text, length, end)


@pytest.mark.parametrize("text", EXPLOSIVE)
def test_explosive_items_are_wrong_or_end_by_the_clock(pool: VerifierPool, text: str) -> None:
    honest = [GradeItem("math", HONEST[0], f"{HONEST[1]}+{n}") for n in range(3)]
    others = [GradeItem("math", gold, text) for gold in ("5", "x^2+y^2=1", r"x \ge 0", "x+1")]
    grades = pool.grade_all([honest[0], *others, honest[1], GradeItem("math", text, "x+5"), honest[2]])
    assert [grades[0], *grades[-3::2]] == [Grade.CORRECT, Grade.INCORRECT, Grade.INCORRECT]
    assert Grade.CORRECT not in [*grades[1:5], grades[6]]


@pytest.mark.skipif(sys.platform != "linux", reason="processes are counted in /proc")
@pytest.mark.parametrize("kind", GRADERS)
def test_the_corpus_leaves_the_pool_whole(pool: VerifierPool, others: int, kind: str) -> None:
    pool.grade_all([GradeItem("math", *HONEST)])
    honest = GradeItem("math", HONEST[0], f"{HONEST[1]}+{kind}")
    *grades, last = pool.grade_all([*both_ways(CORPUS, kind), honest])
    # A grader of containment may well find the gold "5" in a hostile answer.
    assert set(grades) <= set(Grade) - {Grade.ERROR}
    assert last is Grade.INCORRECT
    # One process keeps the workers, each of which may be on its way out while its successor is there.
    assert descendants() - others <= 1 + 2 * WORKERS
    assert pool.grade_all([GradeItem("math", *HONEST)]) == [Grade.CORRECT]


def test_odd_text_is_never_right(pool: VerifierPool) -> None:
    assert not {Grade.CORRECT, Grade.ERROR} & set(pool.grade_all(both_ways(ODD)))


@pytest.mark.parametrize("kind", GRADERS)
def test_no_text_is_executed(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the new pool's workers start here
    with VerifierPool(workers=1) as here:
        here.grade_all(both_ways(CODE, kind))
    assert list(tmp_path.iterdir()) == []


def forbid(monkeypatch: pytest.MonkeyPatch, name: str, function: Callable[..., object]) -> None:
    """Let `function` fail on any text, under every name by which a module knows it."""

    def guarded(source: object, *rest: object, **named: object) -> object:
        if isinstance(source, str):
            raise AssertionError(f"{name}({source[:60]!r})")
        return function(source, *rest, **named)

    for module in [builtins, *sys.modules.values()]:
        if getattr(module, "__dict__", {}).get(name) is function:
            monkeypatch.setattr(module, name, guarded)


def test_computer_algebra_evaluates_no_text_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare()  # imports may evaluate constants of their own
    import sympy

    for name, function in [
        ("eval", builtins.eval),
        ("exec", builtins.exec),
        ("sympify", sympy.sympify),
        ("parse_expr", sympy.parse_expr),
    ]:
        forbid(monkeypatch, name, function)
    called: list[str] = []
    monkeypatch.setattr(sympy.Number, "__new__", guarded_number(sympy.Number.__new__, called))
    texts = [
        *CODE,
        *EXPLOSIVE[:12],
        r"\frac{1}{2}",
        "0.5",
        "x=5",
        "[0,1)",
        r"\begin{pmatrix}1\\2\end{pmatrix}",
    ]
    for text in texts:
        for gold, answer in (("5", text), (text, "x+5"), ("y=5", text), (r"x \ge 0", text)):
            grade_math(GradeItem("math", gold, answer))
    # Were the guards swallowed as failures to read a text, nothing would be equal any more.
    assert grade_math(GradeItem("math", r"\frac{1}{2}x", "0.5x")) is Grade.CORRECT
    assert called == []


def guarded_number(new: Callable[..., object], called: list[str]) -> Callable[..., object]:
    """`Number(text)` would sympify the text."""

    def guarded(cls: type, *arguments: object) -> object:
        called.extend(argument for argument in arguments if isinstance(argument, str))
        return new(cls, *arguments)

    return guarded


def test_a_file_in_the_working_directory_shadows_no_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sympy.py").write_text("open('marker', 'w')")
    monkeypatch.chdir(tmp_path)
    with VerifierPool(workers=1) as here:
        assert here.grade_all([GradeItem("math", "x+y", "y+x")]) == [Grade.CORRECT]
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("answer", ["5\0", "\u202e5", "5\u200b", "\ufeff5", "\u20665\u2069", "5\ud800"])
def test_invisible_characters_are_ignored(pool: VerifierPool, answer: str) -> None:
    assert pool.grade_all([GradeItem("math", "5", answer)]) == [Grade.CORRECT]
