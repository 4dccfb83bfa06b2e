r"""Answers that are no honest values, golds that are, and a scan of which gold accepts which answer.

`odd_answers` combines infinities, undefined values, empty sets, claims, placeholders and lists into a few thousand
texts, the same ones every time. `accepted` compares by the math grader with every text read once, in this process, and
with a limit of processor time per pair; it is for tests of many pairs, where a pool of workers would take hours.
"""

import random
import signal
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from types import FrameType
from typing import Any

from calibsft.schema import Grade, Question
from calibsft.verify import GradeItem
from calibsft.verify.math import _compare
from calibsft.verify.math.algebra import SymPy, _read, prepare

DATA = Path(__file__).parents[3] / "shared/data/benchmarks"
SECONDS = 0.8

# No two of them are equal.
GOLDS = [
    *("0", "1", "-1", "2", "3", "7", "10", "18", "42", "-5", "100", "204", "1024", "-17", "809", "70000", "3.14", "0.05", "2.5"),
    *(r"\frac{1}{2}", r"-\frac{2}{3}", r"\frac{14}{3}", r"\frac{3\sqrt{3}}{4}", r"\frac{\pi}{6}", r"3\frac{1}{7}", "11/13"),
    *(r"\sqrt{2}", r"2\sqrt{13}", r"-\sqrt{5}", r"\sqrt[3]{4}", r"3+2\sqrt{2}", r"\frac{1+\sqrt{5}}{2}", r"\pi", r"12\pi", "e", r"e^2"),
    *(r"\log_2 3", r"\ln 5", r"\sin 1", r"2^{100}", r"30!", r"\binom{100}{50}", "6-5i", "i", r"1+\sqrt{3}i", r"6.02 \times 10^{23}"),
    *("x", "n", "2x", "x^2+1", "(x-1)(x+4)", r"\frac{x}{y}", "a+b+c", r"\frac{n(n+1)}{2}", "2^n", r"e^{-x}", r"\sqrt{x^2+1}", "n!"),
    *("y=3x+2", "x^2+y^2=9", "xy=1", "f(x)=x^3", "2x+3y=6", "z=x+y", "a_n=2n-1", "x=y", "x^2=4"),
    *(r"\lfloor\sqrt{n-1}\rfloor", "x<3", r"x\ge 0", "1<x<2", r"x\ne 4", r"-2\le x\le 5", r"x<-1\text{ or }x>1"),
    *(r"\infty", r"-\infty", r"(-\infty,3]", r"[0,\infty)", r"(0,1)\cup(1,\infty)", r"[-2,7]", r"(-\infty,0)\cup(0,\infty)", r"\mathbb{R}"),
    *("(3,2)", "(0,0)", "(5,1)", "(-2,1)", "(1,2,3)", "(a,b)", r"(3,\frac{\pi}{2})", "2,3,5", r"1,-4", r"\{7,8\}", "4,4", r"\emptyset"),
    *(r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{pmatrix}0\\-1\end{pmatrix}", "1011_2", r"2516_8", r"60^\circ", r"75\%"),
    *(r"6\text{ cm}", r"\$32", r"\text{even}", r"\text{(C)}", r"\text{Tuesday}", r"\text{no solution}", "yes", "ABC", r"\angle A"),
]  # fmt: skip

_ENDLESS = [
    r"\infty",
    r"-\infty",
    "∞",
    "oo",
    "inf",
    "infinity",
    "nan",
    "NaN",
    "undefined",
    r"\text{undefined}",
    r"\text{NaN}",
]
_UNDEFINED = [
    *(r"\frac{0}{0}", r"\frac{1}{0}", r"-\frac{1}{0}", "0/0", "1/0", "0^{-1}", "0^0", r"\log 0", r"\ln 0", r"\log_0 0", r"\log_1 5", r"\log_0 7"),
    *(r"\tan(\frac{\pi}{2})", r"\cot 0", r"\sec(\frac{\pi}{2})", r"\csc 0", "(-1)!", "(-3)!", r"\frac{x}{0}", r"\frac{x}{x-x}", r"\frac{0}{x-x}"),
    *(r"\infty-\infty", r"0\cdot\infty", r"\frac{\infty}{\infty}", r"1^{\infty}", r"\infty^0", r"0^{\infty}", r"0^{-\infty}", r"(-1)^{\infty}"),
    *(r"5 \mod 0", r"\binom{-1}{\infty}", r"\lim_{x\to 0}\frac{1}{x}", r"\sum_{n=1}^{\infty}1", r"\int_0^{\infty}x\,dx", r"\prod_{k=0}^{9}k^{-1}"),
    *(r"\sum_{k=0}^{9}\frac{1}{k}", r"\frac{1}{\frac{1}{0}}", r"e^{-\frac{1}{0}}", r"\arctan(\frac{1}{0})", r"\gcd(0,0)", r"\sqrt[0]{2}", "0^{x-x}"),
]  # fmt: skip
_NOTHING = [
    *(r"\emptyset", r"\varnothing", r"\{\}", "()", "[]", "{}", r"\{\emptyset\}", r"(2,2)", r"[5,5)", r"(1,0)", r"\mathbb{R}\setminus\mathbb{R}"),
    *(r"\emptyset\cup\emptyset", r"[0,1]\cap[2,3]", r"\{1\}\cap\{2\}", r"\mathbb{Z}", r"\mathbb{N}", r"\mathbb{Q}", r"\mathbb{C}", r"\text{none}"),
]  # fmt: skip
_CLAIMS = [
    *("3<2", "2<3", "1=1", "0=0", "1=2", "0=1", "5>5", r"2\le 2", r"3\ne 3", r"3\ne 2", "x=x", "x<x", r"x\le x", r"x\ne x", "x+1=x", "x-x=0"),
    *("0x=0", "0<x<0", "1<x<0", "x^2<0", r"x^2\ge 0", "x^2=-1", "|x|<0", "x<y", "x=y", "a=b=c", "f(x)=f(x)", "1<2<3", "3<2<1", r"x<\infty"),
    *(r"x>-\infty", r"-\infty<x<\infty", r"x=\infty", r"\infty=\infty", r"\infty<\infty", r"\infty>5", r"x\in\emptyset", r"x\in\mathbb{R}", "0x<1"),
    *(r"\text{true}", r"\text{false}", "true", "false", "True", "x=5 or x=7", "e^x=0", r"\frac{1}{x}=0", r"\sqrt{x}=-1", "x^2+y^2=-1", "x^2+1=0"),
]  # fmt: skip
_HOLDERS = [
    *("_", "*", "?", ".", ",", ";", "-", "+", "=", "%", "^", "!", "|", "/", "...", "....", r"\ldots", r"\dots", r"\cdots", "…", "□", r"\square", r"\boxed{}"),
    *("null", "None", "[null]", '{"answer": null}', '""', "''", "$$", r"\(\)", r"\[\]", r"\text{}", r"\text{ }", "\\", "\\\\", "{", "}", "(", "\u200b"),
    *("x", "y", "z", "a", "b", "n", "A", "C", "E", "I", "k", "t", r"\alpha", r"\theta", "f(x)", "answer", r"\text{the answer}", "the answer", "ANSWER"),
    *("any", r"\text{any}", "anything", "all", "all real numbers", "all of the above", "none of the above", "any number", "every number", "some number"),
    *("it depends", "unknown", "cannot be determined", "no solution", "infinitely many", "the same", "correct", "as above", "see above", "gold"),
    *("١٢", "７", "𝟕", "Ⅶ", "⑦", "²", "½", "π", "√", "±", "∅", "ℝ", "∑", "∫", "\u00a0", "0" * 50, "1" * 200, ".5.5", "1.2.3", "1e999", "1e-999", "--5"),
]  # fmt: skip
_SEVERAL = [
    *("5 or 7", "5 and 7", "1,2,3", "1;2;3", "1 2 3", "1|2|3", "1/2/3", "[0,10]", "(0,10)", r"[0,\infty]", r"1\pm 1", r"5\pm 5", r"\pm\infty", r"\pm x", r"\pm 0"),
    *(r"x\pm x", "1..100", "1-100", "1 to 100", "between 0 and 100", "at least 0", "at most 999", "0<x<1000", ">0", "<1000", r"\ge 0", "n>0", r"\{1,2,3\}"),
    *(r"\{0,1,\ldots,999\}", r"1,2,\ldots,999", r"1,\ldots,n", r"\{x\}", r"\{x,y\}", r"\{\infty\}", r"(\infty,\infty)", r"\infty,\infty", r"(x,x)", "(,)"),
    *(",".join(map(str, range(1000))), ",".join(map(str, range(60))), " or ".join(map(str, range(40))), r"\boxed{5},\boxed{7}", "5=x=7", "x=5=7", "5=7"),
    *(r"\begin{pmatrix}\infty\\\infty\end{pmatrix}", r"\begin{pmatrix}x&x\\x&x\end{pmatrix}", r"\begin{pmatrix}\end{pmatrix}", r"\max(1,\infty)", r"\min(0,\infty)"),
]  # fmt: skip
_WRAPPED = [
    *("{}", "-{}", "({})", r"\sqrt{{{}}}", r"\sqrt[3]{{{}}}", "|{}|", r"{}\%", "{}!", r"{}^\circ", r"{}\text{{ cm}}", r"\${}", r"2^{{{}}}", r"x^{{{}}}"),
    *(r"({})^2", r"({})^{{\pi}}", r"({})^{{-1}}", r"({})^0", r"\frac{{1}}{{{}}}", r"\frac{{{}}}{{2}}", r"\log({})", r"\ln({})", r"\sin({})", r"\cos({})"),
    *(r"\tan({})", r"\arctan({})", r"e^{{{}}}", r"\binom{{{}}}{{2}}", r"\lfloor {}\rfloor", r"\lceil {}\rceil", r"\gcd({},2)", r"\max({},2)", r"\{{{}\}}"),
    *(r"x={}", r"{}=x", r"x<{}", r"x\ge {}", r"[0,{})", r"(-\infty,{})", r"({},{})", "{} or 5", "5, {}", r"{}\cup\{{5\}}", r"\text{{{}}}", r"\boxed{{{}}}"),
    *(r"\sum_{{k=1}}^{{3}}{}", r"\prod_{{k=1}}^{{3}}{}", r"\overline{{{}}}", r"{}_2", r"f({})", r"\sqrt{{2}}{}^{{\pi}}", "{} mod 7", "the answer is {}"),
]  # fmt: skip
_JOINED = [
    "{}+{}",
    "{}-{}",
    r"{}\cdot {}",
    r"\frac{{{}}}{{{}}}",
    "{}^{{{}}}",
    "{}={}",
    "{}<{}",
    "({},{})",
    "{},{}",
    r"{}\cup {}",
    "{}{}",
]
_FINITE = ["0", "2", "-1", r"\frac{1}{2}", r"\sqrt{2}", r"\pi", "x", "i", "10^{20}"]


def odd_answers(count: int = 3_000, seed: int = 0) -> list[str]:
    """Every basic odd text, then combinations of them in a fixed random order, `count` in all."""
    basic = [*_ENDLESS, *_UNDEFINED, *_NOTHING, *_CLAIMS, *_HOLDERS, *_SEVERAL]
    calculated = [*_ENDLESS[:4], *_UNDEFINED]
    pairs = [*product(calculated, _FINITE), *product(_FINITE, calculated), *product(calculated, calculated)]
    wrapped = [shape.format(text, text) for shape, text in product(_WRAPPED, basic)]
    joined = [shape.format(*pair) for shape, pair in product(_JOINED, pairs)]
    combined = [*wrapped, *joined]
    random.Random(seed).shuffle(combined)
    return list(dict.fromkeys([*basic, *combined]))[:count]


def benchmark_questions(*graders: str) -> Iterator[tuple[str, list[Question]]]:
    """The questions of every benchmark that has one of `graders` and whose data is here."""
    from calibsft.benchmarks import BENCHMARKS
    from calibsft.errors import InputError

    for name, benchmark in BENCHMARKS.items():
        if not DATA.is_dir() or benchmark.name.startswith(("playground", "multiply", "cross", "study")):
            continue
        try:
            questions = [q for q in benchmark.load(DATA) if q.grader in graders]
        except InputError:
            continue
        if questions:
            yield name, questions


class _Overrun(BaseException):
    """A pair has used up its processor time; no grader catches it."""


class Scan(SymPy):
    """The math grader's algebra, save that it reads each text once and forgets nothing."""

    def __init__(self) -> None:
        prepare()
        super().__init__()
        self._objects: dict[str, Any] = {}
        self.overrun: list[tuple[str, str]] = []

    def _read(self, text: str) -> Any:
        if text not in self._objects:
            self._objects[text] = _read(text)
        return self._objects[text]

    def accepted(self, answer: str, golds: Iterable[str]) -> list[str]:
        """The golds for which an answer is right."""
        return [gold for gold in golds if self._right(gold, answer)]

    def _right(self, gold: str, answer: str) -> bool:
        def stop(number: int, frame: FrameType | None) -> None:
            raise _Overrun

        before = signal.signal(signal.SIGVTALRM, stop)
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
        try:
            return _compare(gold, GradeItem("math", gold, answer), self) is Grade.CORRECT
        except Exception:  # a worker calls it an error, which is wrong
            return False
        except _Overrun:
            self.overrun.append((gold, answer))
            return False
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, before)
