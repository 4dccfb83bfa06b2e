"""Hostile answers: they end, they execute nothing, and they cost the others nothing."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from calibsft.schema import Grade
from calibsft.verify import GradeItem, VerifierPool
from calibsft.verify.limits import too_large

HONEST = (r"\frac{1}{2}x", r"\frac{x}{2}")

OVERSIZED = [
    "9^{9^{9^9}}",
    "10^{10^{10}}",
    "x^{999999}",
    "3000000!",
    "(3000000)!",
    r"\sum_{k=1}^{10^9} k",
    "7" * 10**6,
    "(" * 21,
    r"\frac{" * 300,
    "\0" * 2001,
]

# Their text is harmless; only the clock can stop them.
ENDLESS = ["(x+y+z+1)^{200}", "((((((9!)!)!)!)!)!)"]

# Neither oversized nor endless, but likely to confuse a parser.
ODD = [
    "9^9^9^9",
    "9**9**9",
    "1e999999",
    "$" * 1999,
    "{" * 20,
    "\0" * 1999,
    "nan",
    "zoo",
    "\ud800",
    "\\",
    "😀" * 20,
]

CODE = [
    "__import__('os').system('touch marker')",
    r"$__import__('os').system('touch marker')$",
    r"\text{open('marker', 'w')}",
    "().__class__.__base__.__subclasses__()",
    r"\immediate\write18{touch marker}",
]


@pytest.fixture(scope="module")
def pool() -> Iterator[VerifierPool]:
    with VerifierPool(workers=2, seconds=3.0) as pool:
        yield pool


def both_ways(texts: list[str]) -> list[GradeItem]:
    return [GradeItem("math", *pair) for text in texts for pair in (("5", text), (text, "5"))]


@pytest.mark.parametrize("text", OVERSIZED)
def test_plainly_oversized_text_is_refused_before_parsing(text: str) -> None:
    with VerifierPool() as here:
        assert here.grade_all(both_ways([text])) == [Grade.TOO_LARGE, Grade.UNPARSED_GOLD]
        assert here._workers == []


@pytest.mark.parametrize(
    "text", ["2^{2024}", "2^{2^{2^2}}", "2023!", "10^{-19}", "x^{100}", "7" * 300, "e^{-x^2}"]
)
def test_legitimate_large_answers_pass_the_static_limits(text: str) -> None:
    assert not too_large(text)


@pytest.mark.parametrize(
    "text", ["(" * 2000, "^" * 2000, "1^" * 1000, "9^{9}" * 400, "1!" * 1000, "{" * 10**6]
)
def test_the_static_limits_are_themselves_cheap(text: str) -> None:
    begin = time.process_time()
    too_large(text)
    assert time.process_time() - begin < 0.1


def test_endless_items_time_out_and_honest_ones_beside_them_are_graded(pool: VerifierPool) -> None:
    endless = [GradeItem("math", "5", text) for text in ENDLESS]
    honest = [GradeItem("math", HONEST[0], f"{HONEST[1]}+{n}") for n in range(3)]
    grades = pool.grade_all([honest[0], endless[0], honest[1], endless[1], honest[2]])
    assert grades == [Grade.CORRECT, Grade.TIMEOUT, Grade.INCORRECT, Grade.TIMEOUT, Grade.INCORRECT]


def test_odd_text_is_never_right(pool: VerifierPool) -> None:
    assert not {Grade.CORRECT, Grade.ERROR} & set(pool.grade_all(both_ways(ODD)))


def test_no_text_is_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the new pool's worker starts here
    with VerifierPool(workers=1, seconds=3.0) as here:
        assert Grade.CORRECT not in here.grade_all(both_ways(CODE))
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_working_directory_shadows_no_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sympy.py").write_text("open('marker', 'w')")
    monkeypatch.chdir(tmp_path)
    with VerifierPool(workers=1) as here:
        assert here.grade_all([GradeItem("math", "x+y", "y+x")]) == [Grade.CORRECT]
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("answer", ["5\0", "\u202e5", "5\u200b", "\ufeff5", "\u20665\u2069"])
def test_invisible_characters_are_ignored(pool: VerifierPool, answer: str) -> None:
    assert pool.grade_all([GradeItem("math", "5", answer)]) == [Grade.CORRECT]


@pytest.mark.skipif(sys.platform != "linux", reason="address space is limited, and visible, on Linux")
def test_the_memory_of_a_worker_is_limited() -> None:
    with VerifierPool(workers=1, memory_mb=777) as here:
        here.grade_all([GradeItem("math", *HONEST)])
        limits = Path(f"/proc/{here._workers[0].process.pid}/limits").read_text()
    (line,) = [line for line in limits.splitlines() if line.startswith("Max address space")]
    assert line.split()[3:5] == [str(777 * 2**20)] * 2
