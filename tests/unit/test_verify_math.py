"""The verdicts of the math grader: what is right, what is wrong, what cannot be read, and on which data."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from calibsft.schema import Grade
from calibsft.verify import GradeItem, VerifierPool
from calibsft.verify.math import quick
from calibsft.verify.math.algebra import SymPy, prepare
from calibsft.verify.math.lists import matched

DATA = Path(__file__).parents[3] / "shared/data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the shared benchmarks and vectors are not here")


@pytest.fixture(scope="module")
def pool() -> Iterator[VerifierPool]:
    with VerifierPool(workers=1, seconds=20) as pool:
        yield pool


def judge(pool: VerifierPool, gold: str, answer: str, tolerance: str = "") -> Grade:
    return pool.grade_all([GradeItem("math", gold, answer, tolerance)])[0]


EQUAL = [
    ("1,2", "2,1"),
    ("1,1,2", "1,2,1"),
    (r"\pm 2", "-2, 2"),
    (r"y = \pm a", "a, -a"),
    ("a,-a", r"y=\pm a"),
    ("$69$,$84$", "84, 69"),
    ("$69$,$84$", "69 and 84"),
    (r"\{1,2\}", "1, 2"),
    ("1,2", r"\{2,1\}"),
    ("1000", "1,000"),
    ("1,000", "1000"),
    ("1,000", "1{,}000"),
    ("58,500", "58500"),
    ("100,200", "100, 200"),
    (r"[0,\infty)", r"x \ge 0"),
    (r"x \ge 0", r"[0,\infty)"),
    (r"(-\infty,1]\cup[10,+\infty)", r"c \le 1 or c \ge 10"),
    ("x<1 or x>10", r"(-\infty,1)\cup(10,\infty)"),
    ("x^2+y^2=1", "1-x^2-y^2=0"),
    ("a_n=2n+1", "2n+1"),
    ("2n+1", "a_{n}=2n+1"),
    ("0.6", "60%"),
    ("0.6", r"60\%"),
    ("60", r"60\%"),
    (r"28\%", "28"),
    ("28", "28 percent"),
    (r"28\%", "0.28"),
    (r"28\%", "28%"),
    (r"50\%", r"\frac12"),
    ("5", "5 cm"),
    ("5", r"5\text{ cm}"),
    ("5", r"5 \mathrm{~m/s}"),
    ("5", r"\$5"),
    ("5", "5 dollars"),
    ("5", "5 degrees"),
    ("5", "5°"),
    ("5", r"5^\circ"),
    ("5", "5 m"),
    ("5", "5 square units"),
    (r"15\mbox{ cm}^2", "15"),
    (r"15\mbox{ cm}^2", "15 cm^2"),
    (r"15\mbox{ cm}^2", r"15 \text{ cm}^2"),
    (r"864 \mbox{ inches}^2", "864"),
    (r"5.4 \text{ cents}", "5.4"),
    (r"\frac{270}7\text{ degrees}", "270/7"),
    (r"18\pi", r"18\pi units"),
    ("0.64N", r"\frac{16}{25}N"),
    ("0.64N", "0.6400 N"),
    ("1011_2", "1011_{2}"),
    ("1011_2", "$1011_2$"),
    ("2516_8", "2516_{8}"),
    (r"(3, \frac{\pi}{2})", "(3, π/2)"),
    (r"\left( 3, \frac{\pi}{2} \right)", "(3, π/2)"),
    (r"2\sqrt{2}", "2√2"),
    (r"\sqrt{13}", "√13"),
    (r"\sqrt{x+1}", "√(x+1)"),
    ("-5", "−5"),
    ("6", "2×3"),
    ("x^2", "x²"),
    (r"\frac12", "½"),
    (r"\frac52", "2½"),
    (r"[0,\infty)", "[0, ∞)"),
    (r"x \le 5", "x ≤ 5"),
    ("8.7e8", r"8.7 \times 10^8"),
    ("(1e3, 2)", "(1000, 2)"),
    ("A", r"\text{(A)}"),
    ("A", "(A)"),
    ("A", "A."),
    (r"\text{(A)}", "A"),
    (r"\text{(C)}", r"\textbf{(C)}"),
    (r"\text{Evelyn}", "Evelyn"),
    (r"\text{Evelyn}", "evelyn"),
    (r"\text{east}", "East"),
    (r"\text{even}", r"\text{Even}"),
    (r"1\frac{4}{5}", "9/5"),
    (r"137 \frac{1}{2}", "137.5"),
    (r"137 \frac{1}{2}", "275/2"),
    ("7/2", "3 1/2"),
    (r"\frac12", r"\dfrac{1}{2}"),
    (r"\frac12", r"\tfrac12"),
    (r"\sqrt3", r"\sqrt{3}"),
    ("5", "x = 5"),
    ("5", "The answer is 5."),
    ("5", "The answer is $5$."),
    ("5", "**5**"),
    ("5", r"\boxed{5}"),
    ("5", r"\(5\)"),
    ("5", r"\[5\]"),
    ("5", "$$5$$"),
    ("5", "5."),
    ("5", "5.0"),
    ("5", "Answer: 5"),
    ("6", "2+4=6"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{bmatrix}1\\2\end{bmatrix}"),
    (
        r"\begin{pmatrix} -1/3 \\ 2/3 \\ 5/3 \end{pmatrix}",
        r"\begin{pmatrix} -\frac{1}{3} \\ \frac{2}{3} \\ \frac{5}{3} \end{pmatrix}",
    ),
    (r"3 \pm 2\sqrt{2}", r"3+2\sqrt{2}, 3-2\sqrt{2}"),
    (r"1 \pm \sqrt{19}", r"x = 1 \pm \sqrt{19}"),
    (r"\{1\pm\sqrt{5},-2\}", r"-2, 1+\sqrt5, 1-\sqrt5"),
    ("(6,31,-1)", "(p,q,r) = (6,31,-1)"),
    ("(1,3)", "1,3"),
    ("y = 2x + 3", "y=3+2x"),
    ("y = 2x + 3", "2x+3"),
    (r"x \in [-2,7]", "[-2,7]"),
    (r"x \in [-2,7]", r"-2 \le x \le 7"),
    (r"(2,12) \cup (12,102)", "(2, 12) ∪ (12, 102)"),
    (".0000672", r"6.72 \times 10^{-5}"),
    (r"\$32,\!348", "32348"),
    (r"\$18.90", "18.9"),
    (r"11,\! 111,\! 111,\! 100", "11111111100"),
    (r"10,\!080", "10080"),
    (r"\cot x", r"\frac{\cos x}{\sin x}"),
    ("6 - 5i", "-5i+6"),
    ("f(2)=5", "5"),
    ("x=1,y=2", "y=2, x=1"),
    (r"30.4 \text{ or } \frac{152}{5}", "30.4"),
    (r"30.4 \text{ or } \frac{152}{5}", "152/5"),
    (r"0.\overline{3}", "1/3"),
    (r"\frac{1}{3}", r"0.\overline{3}"),
    ("10^{100}", "10^{100}"),
    ("4.5", r"4\frac{1}{2}"),
    ("12:00", "12:00"),
    ("3:4", "3:4"),
    (r"\text{Yes}", "yes"),
    ("(0,1)", r"x \in (0,1)"),
    ("2^{10}", "1024"),
    ("120", "5!"),
    (r"\frac{1}{1011} \binom{2020}{1010}", r"\frac{\binom{2020}{1010}}{1011}"),
    ("np.arcsin(10/13)", r"\arcsin(10/13)"),
    ("e^{t} / 3", r"\frac{e^t}{3}"),
    ("$2$ and $3$", "3, 2"),
    ("4 and 5", "5 and 4"),
    (r"\frac{\pi}{2}", "pi/2"),
    ("x^{n+1}", "x^(n+1)"),
    ("2x", "2*x"),
    ("x^2", "x**2"),
    (r"90^\circ", "90"),
    ("90", "90 degrees"),
    (r"(45^{\circ}, 60^{\circ})", "(45, 60)"),
    ("f(x)=x,f(x)=-x", "f(x) = -x, f(x) = x"),
    ("-1", "x=-1"),
    ("7.5", r"7.5 \text{ hours}"),
    (r"\emptyset", "∅"),
    ("(x+1)(x-1)", "x^2-1"),
    ("5", "5,"),
    ("36", r"36 \text{ square inches}"),
    (r"\infty", "∞"),
    ("x=2, x=3", r"x = 2 \text{ or } x = 3"),
    (r"16 \pi", "16π"),
    (r"\sqrt[3]{2}", "2^{1/3}"),
    (r"\ln 2", "ln(2)"),
    ("3", r"\log_2 8"),
    (r"\frac{3}{4}", "3/4"),
    (r"\frac{3}{4}", "0.75"),
    (r"-\frac{3}{4}", r"\frac{-3}{4}"),
    (r"\dfrac{17}{50}", ".34"),
    ("42", "42"),
    ("42", " 42. "),
    ("42", "042"),
    ("1000", "1 000"),
    ("0.4", ".40"),
    (r"\sqrt{8}", r"2\sqrt{2}"),
    ("(12,102)", "(12, 102)"),
    ("x^2+1", "1+x^2"),
    (r"2.75 \times 10^{11}", "2.75E+11"),
    ("1.2e-9", "0.0000000012"),
    (r"\frac{1}{3}", "0.333333"),
    (r"\frac{2}{3}", "0.666666"),
    (r"\frac{2}{3}", "0.6666667"),
    ("5", r"$\boxed{5}$"),
    ("5", r"Adding up, we get \boxed{5} apples, and no more."),
    ("5", "The answer is: $5$"),
    ("6", "The sum of $2$ and $4$ is $6$."),
    ("3", r"The degree of \( f(x) \) is 3."),
    ("x=5", "5"),
    (r"\$36", "36 dollars"),
    ("36", "$36"),
    ("E_{1}, E_{2}", "E_{2}, E_{1}"),
    ("x=1 or x=2", "x=2 or x=1"),
    ("(-2,3)", r"(\text{-2}, 3)"),
    ("5", r"500\%"),
    (r"12\pi", "12π inches per second"),
    ("2i", r"\sqrt{-4}"),
    ("(x-1)^{2023}", "-(1-x)^{2023}"),
    ("2^{2024}", "4^{1012}"),
    ("3e8", "3e8 m/s"),
    ("3e8", r"3.0 \times 10^8 m/s"),
    ("5000", "5e3 km"),
    ("1,2", r"x \in \{1,2\}"),
    (r"x \in \{1,2\}", "1,2"),
    (r"\{1,2\}", r"S = \{2,1\}"),
    (r"\{(1,2),(3,4)\}", "(3,4),(1,2)"),
    ("(2,1),(3,1)", r"\{(3,1),(2,1)\}"),
    (r"\left\{1, 2\right\}", r"\{1, 2\}"),
    (r"a < 0 \text{ or } a = 1", r"(-\infty,0)\cup\{1\}"),
    (r"(-\infty, 0) \cup\{1\}", "a<0 or a=1"),
    (r"(-\infty, 2) \cup (3, \infty)", "x<2 or x>3"),
    (r"(-\infty, 2) \cup (3, \infty)", r"x > 3 \text{ or } x < 2"),
    (r"(-\infty, 2) \cup (3, \infty)", r"(3,\infty) \cup (-\infty,2)"),
    (r"(-\infty, 2) \cup (3, \infty)", r"(-\infty, 2), (3, \infty)"),
    ("10^{-3}", "10⁻³"),
    (r"x \in [-2,7]", "x∈[−2,7]"),
    (r"[0,\infty)", "x ≥ 0"),
    (r"(0,\infty)", "x > 0"),
    ("0.05", r"5\%"),
    (r"5\%", "0.05"),
    ("1e100", "10^{100}"),
    ("(1,2)", "x=1, y=2"),
    ("60", r"60 \text{ percent}"),
    ("5", "x = 5 cm"),
    ("5", "5cm"),
    ("5", r"5\,\text{cm}"),
    ("f(x)=x^2", "x^2"),
    ("(x-2)(x+3)", "(x+3)(x-2)"),
    (r"\frac{x}{y}", "x/y"),
    (r"\frac{a+b}{2}", "(a+b)/2"),
    (r"4\sqrt{3}+2", "2+4*sqrt(3)"),
    (r"2+\sqrt{3}, 2-\sqrt{3}", r"2 \pm \sqrt{3}"),
    (r"-\frac{1}{2}", "-0.5"),
    (r"\frac{-1}{2}", r"-\frac{1}{2}"),
    (r"\left(-\infty,\frac{1}{2}\right]", r"x \le \frac12"),
    (r"3\frac{1}{2}", "3.5"),
    (r"3 \frac{1}{2}", "7/2"),
    (r"\text{(B)}", "B"),
    (r"\text{B}", "(B)"),
    ("B", r"\textbf{(B)}"),
    (r"\text{no solution}", "No solution"),
    (r"\text{No}", "no"),
    (r"\text{July 4}", "July 4"),
    ("2:3", "2:3"),
    ("1:2", r"\frac{1}{2}"),
    (r"\overline{AB}", r"\overline{AB}"),
    (r"0.1\overline{6}", r"\frac{1}{6}"),
    (r"\sqrt{2}/2", r"\frac{1}{\sqrt{2}}"),
    (r"\frac{\sqrt{2}}{2}", "0.7071068"),
    (r"\pi", "3.14159265"),
    (r"100\pi", "100 π cm²"),
    (r"100\pi", r"100\pi \text{ cm}^2"),
    ("12", r"12 \text{ units}^2"),
    (r"\begin{bmatrix} 1 & 2 \\ 3 & 4 \end{bmatrix}", r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}"),
    (r"\left(\begin{array}{c}1\\2\end{array}\right)", r"\begin{pmatrix}1\\2\end{pmatrix}"),
    (r"\binom{5}{2}", "10"),
    ("n(n+1)/2", r"\frac{n^2+n}{2}"),
    ("2^{n+1}", r"2\cdot 2^n"),
    (r"\log_{10} 100", "2"),
    ("e^{2x}", "(e^x)^2"),
    ("|x-1|", "|1-x|"),
    ("x>3", "3<x"),
    ("1<x<3", "(1,3)"),
    ("(1,3)", "1<x<3"),
    (r"-1 \le x < 2", "[-1,2)"),
    (r"\mathbb{R}", r"(-\infty,\infty)"),
    (r"x\ne 2", r"(-\infty,2)\cup(2,\infty)"),
    (r"\$5.00", "5"),
    (r"\$1,000", "1000"),
    ("1,234,567", "1234567"),
    ("1,234.5", "1234.5"),
    ("(1,234)", "(1, 234)"),
    ("3,4,5", "3, 4 and 5"),
    ("3,4,5", "3; 4; 5"),
    ("A, B", "B, A"),
    (r"\text{A and B}", r"\text{B and A}"),
    ("+5", "5"),
    ("120", "5!"),
    (r"\frac{10}{11}", "10/11 with a confidence level of 0.95."),
    (r"\text{ellipse}", "The graph of the equation is an ellipse."),
    (r"5 \text{ m}", "5 meters"),
    (r"2 \text{ hours}", "2 hrs"),
    (r"\frac43", "The value of y at which there is a horizontal asymptote is 4/3."),
    (r"\{1,2\} and \{3,4\}", r"\{4,3\}, \{1,2\}"),
    ("15", "The polygon has 15 sides."),
    ("1000", "They paid 1,000 dollars"),
    ("-2", "the answer must be -2"),
    ("8", "((((((((((((((((((1+7))))))))))))))))))"),
    (r"\sqrt{8}", r"((2\sqrt{2}))"),
]

UNEQUAL = [
    ("1,1,2", "1,2"),
    ("1,2", "1,1,2"),
    ("5", "5 / 6"),
    ("(2,1)", "(1,2)"),
    ("2x+z=1", "1"),
    ("0.6", "60"),
    ("60", "0.6"),
    ("0.64N", "0.64"),
    ("1011_2", "1011_3"),
    ("1,2", "1"),
    ("1", "1,2"),
    ("x^2+y^2=1", "x^2-y^2=1"),
    ("x=1", "x=2"),
    ("x=1", "y=1"),
    ("[0,1)", "[0,1]"),
    ("(0,1)", "[0,1]"),
    (r"\text{east}", "west"),
    ("A", "B"),
    ("5", "5 million"),
    ("5", "5 squared"),
    ("5", r"50\%"),
    ("1/3", "0.333"),
    ("5", "-5"),
    ("5", "5x"),
    ("5", "5 x"),
    ("3t", "3"),
    ("2d", "2"),
    ("5", "5:6"),
    ("6", "The answer is not 6"),
    ("6", "not 6"),
    ("x<1", "x>1"),
    (r"\frac{1}{10^9}", "0.0000000013"),
    ("1.2e-9", "0.0000000013"),
    ("5", "5 | 6"),
    ("5", "(5,6)"),
    ("5", "[5,6]"),
    ("(1,2)", "1"),
    ("(1,2)", "2,1"),
    ("1,2", "1.2"),
    ("1000", "1,000,000"),
    ("3", "x=3, y=4"),
    ("5", "5+0=6"),
    ("6", "5+0=6"),
    ("5", "5 / 6 cm"),
    ("100", r"1\%"),
    ("E_1, E_2", "E_1"),
    ("5", "5 & 6"),
    ("5", "5?6"),
    ("5", r"5\\6"),
    ("5", r"5\n6"),
    ("5", "5 -> 6"),
    ("5", "5/6"),
    ("5", "5 ... 6"),
    ("5", "5 < x < 6"),
    ("5", r"x \ge 5"),
    ("5", "x>5"),
    ("5", r"x \ne 5"),
    ("5", r"x \neq 5"),
    ("5", r"\neg 5"),
    ("5", r"\approx 6"),
    ("5", r"6 \approx 5"),
    ("5", "at least 5"),
    ("5", r"x \le 5"),
    ("42", "43"),
    ("11", "1 1"),
    ("1000001", "1000000"),
    ("16386.20", "16386.21"),
    ("2.75e11", "2.76e11"),
    ("1000000.5", "1000000"),
    ("1.0000001", "1.0000002"),
    ("E_1", "E"),
    ("0.0000001", "0.0000002"),
    ("x^2+y^2=1", "x^2+y^2=2"),
    ("(a+b)^2", "a^2+b^2"),
    ("2i", "-2i"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}1&2\end{pmatrix}"),
    ("(2,1),(3,1)", "(1,2),(3,1)"),
    (r"(0,\infty)", r"x \ge 0"),
    ("y=x^2", "f(x)=x^2"),
    ("f(x) = x^2", "y = x^2"),
    (r"2 \pm \sqrt{3}", r"2+\sqrt{3}"),
    (r"\frac{\sqrt{2}}{2}", "0.707"),
    (r"\pi", "3.14"),
    (r"\begin{bmatrix} 1 & 2 \\ 3 & 4 \end{bmatrix}", r"\begin{pmatrix} 1 & 2 \\ 4 & 3 \end{pmatrix}"),
    (r"\sin 30^\circ", r"\frac12"),
    ("x>3", "x<3"),
    ("(1,3)", r"1 < x \le 3"),
    ("3,4,5", "(3,4,5)"),
    ("x=3,y=4", "(3,4)"),
    (r"\frac{1}{0}", "5"),
    (r"\infty", r"-\infty"),
    ("5", "5!"),
    ("x", "y"),
    (r"5 \text{ m}", r"5 \text{ cm}"),
    (r"1 \text{ hour}", r"1 \text{ minute}"),
    (r"5 \text{ cents}", "5 dollars"),
    ("8", "5 6 / 7"),
    (r"\{1,2\} and \{3,4\}", r"\{3,4\}, \{1,2,2\}"),
    (r"\{1,2,2\} and \{3,4\}", r"\{3,4\}, \{1,2\}"),
    ("15", "The polygon has at least 15 sides"),
    ("15", "The polygon does not have 15 sides"),
    ("15", "The 3 polygons have 15 sides"),
    ("15", "The polygon has 15x sides"),
    ("5", "(5, 6)"),
    ("(5, 6)", "5"),
    (r"(-\infty, 2) \cup (3, \infty)", "6"),
    ("5", "the dean"),
]

HEDGES = [
    ("5", "5 or 6"),
    ("5", "5, 6"),
    ("5", "5=6"),
    ("6", "5=6"),
    ("6", "x=5=6"),
    ("5", r"\boxed{5} or \boxed{6}"),
    ("6", r"\boxed{5} or \boxed{6}"),
    ("5", r"\{5,6\}"),
    ("5", "5 and 6"),
    ("5", "x=5 or x=6"),
    ("6", "x=5 or x=6"),
    ("5", "5;6"),
    ("5", "5, 5"),
    (r"\pm 2", "2"),
    ("2", r"\pm 2"),
    ("A", "A or B"),
    (r"\text{(A)}", "A and B"),
    ("5", "5 thousand"),
    ("10", "5 plus 5 or 6"),
    ("5", "5 to 6"),
    ("5", "5-6"),
    ("56", "5 6"),
    ("5", "5 6"),
    ("6", "5 or $6$"),
    ("6", "either 5 or 6"),
    ("5", r"\text{5 or 6}"),
    ("5", r"5 \text{ or } 6"),
    ("5", r"5 \lor 6"),
    ("x=3", "x=3 or x=4"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}2\\1\end{pmatrix}"),
    (r"(-\infty,1)\cup(10,\infty)", "x<1 or x>11"),
    (r"\text{Evelyn}", "Evelyn or Bob"),
    ("90", "90 or 91 degrees"),
    ("5", r"5 \vee 6"),
    ("5", "{5,6}"),
    ("5", r"5 \quad 6"),
    ("5", r"5 \to 6"),
    ("5", r"5 \text{ and also } 6"),
    ("5", r"5 \text{ maybe } 6"),
    ("5", "5 (or 6)"),
    ("5", "5 (6)"),
    ("30", "5 (6)"),
    ("5", "5 = 5 or 6"),
    ("5", "$5$ $6$"),
    ("5", "$5$, $6$"),
    ("5", "5 but maybe 6"),
    ("5", r"5 \cup 6"),
    ("5", r"\{5\} \cup \{6\}"),
    ("5", "between 5 and 6"),
    ("5", r"5 \approx 6 or 7"),
    ("6", "Either five or the answer is 6"),
    ("6", "The answer is 5 or it is 6"),
    ("6", "The answer is 5 and it is 6"),
    ("6", r"5 or \boxed{6}"),
    ("6", "5 and $6$"),
    ("11", "5 6"),
    ("5", r"\{5, 5\}"),
    ("5", r"5\text{ or 6}"),
    ("5", r"5\text{ or six}"),
    ("5", "5 is wrong"),
    ("5", "5 seven"),
]


@pytest.mark.parametrize("gold, answer", EQUAL)
def test_math_accepts_the_same_value_in_another_notation(pool: VerifierPool, gold: str, answer: str) -> None:
    assert judge(pool, gold, answer) is Grade.CORRECT


@pytest.mark.parametrize("gold, answer", UNEQUAL)
def test_math_refuses_another_value(pool: VerifierPool, gold: str, answer: str) -> None:
    assert judge(pool, gold, answer) in (Grade.INCORRECT, Grade.UNPARSED_ANSWER)


@pytest.mark.parametrize("gold, answer", HEDGES)
def test_several_offered_values_are_not_one_right_answer(pool: VerifierPool, gold: str, answer: str) -> None:
    assert judge(pool, gold, answer) in (Grade.INCORRECT, Grade.UNPARSED_ANSWER)


@pytest.mark.parametrize("answer", ["", " \n", "\u200b", r"\frac{", "$$", "٥"])
def test_math_says_when_it_cannot_read_the_answer(pool: VerifierPool, answer: str) -> None:
    assert judge(pool, "5", answer) is Grade.UNPARSED_ANSWER


@pytest.mark.parametrize("gold", ["", " ", "$$ $$", r"\frac{", "9^{9^{9^9}}", "7" * 5000])
def test_an_unreadable_gold_is_unscored_even_for_an_equal_answer(pool: VerifierPool, gold: str) -> None:
    for answer in (gold, "5", ""):
        assert judge(pool, gold, answer) is Grade.UNPARSED_GOLD


@pytest.mark.parametrize(
    "gold, answer, tolerance, right",
    [
        ("4.2", "4.3", "1e-1", True),
        ("4.2", "4.31", "1e-1", False),
        ("4.2", "4.25%", ".1", True),
        ("5", "5.1", "0.1", True),
        ("5", "5.1000001", "0.1", False),
        ("5", "5.0", "0", True),
        ("0.3333333", "1/3", "0", False),
        (r"\pi", "3.14", "0.01", True),
        (r"\pi", "3.1", "0.01", False),
        ("3.14", r"\pi", "0.01", True),
        (r"90^\circ", "91", "2", True),
        (r"7 \times 10^{35}", r"7.1 \cdot 10^{35}", "1e34", True),
        (r"7 \times 10^{35}", r"7.1 \cdot 10^{35}", "1e33", False),
        ("1,2", "2.05, 0.95", "0.1", True),
        ("1,2", "2.005, 0.95", "0.1, 0.01", True),
        ("1,2", "2.05, 0.95", "0.1, 0.01", False),
        ("(1,2)", "(1.05, 2.2)", "0.1,0.3", True),
        ("(1,2)", "(1.2, 2.2)", "0.1,0.3", False),
        ("x+1", "x+1.01", "0.1", False),
        ("5", "5 or 5.05", "0.1", False),
        # Pairing the first gold with the first answer that is near enough would leave 0.2 without one.
        ("0.1,0.2", "0.15,0.08", "0.05", True),
    ],
)
def test_a_tolerance_is_an_absolute_error(
    pool: VerifierPool, gold: str, answer: str, tolerance: str, right: bool
) -> None:
    assert (judge(pool, gold, answer, tolerance) is Grade.CORRECT) == right


@pytest.mark.parametrize(
    "tolerance", ["x", "-1", "1e", "nan", "inf", "1,", "1,2", "1" * 300, "١", "1 2", "0x1", "1e9999"]
)
def test_a_malformed_tolerance_leaves_the_gold_unscored(tolerance: str) -> None:
    for answer in ("5", "6"):
        assert quick(GradeItem("math", "5", answer, tolerance)) is Grade.UNPARSED_GOLD


def test_a_long_list_is_compared_as_text_in_any_order() -> None:
    values = [str(n) for n in range(300)]
    assert matched(
        values, values[::-1], lambda *_: pytest.fail("300 values are too many to compare in pairs")
    )
    assert not matched(values, ["0"] * 300, lambda *_: True)


def test_running_out_of_memory_is_not_called_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare()
    from math_verify import grader

    def exhausted(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(grader, "simplify", exhausted)
    with pytest.raises(MemoryError):
        SymPy().equal(r"\sum_{k=1}^{n} k", r"\sum_{k=1}^{n} (k+1)")


@needs_data
def test_math_agrees_with_math_verify_where_its_cases_are_about_equivalence(pool: VerifierPool) -> None:
    rows = [json.loads(line)["params"] for line in (DATA / "vectors/mathverify_cases.jsonl").open()]
    # Longer texts test how math-verify finds an answer in a solution; options test what is not the default.
    cases = [
        row for row in rows if "gold" in row and "strict" not in row and len(row["gold"] + row["pred"]) < 300
    ]
    grades = pool.grade_all([GradeItem("math", row["gold"], row["pred"]) for row in cases])
    expected = [bool(row.get("expected", row.get("result"))) for row in cases]
    agreeing = sum((got is Grade.CORRECT) == want for got, want in zip(grades, expected, strict=True))
    assert len(cases) > 100
    assert agreeing / len(cases) >= 0.95


@needs_data
def test_math_agrees_with_the_scoring_examples_of_olympiadbench(pool: VerifierPool) -> None:
    examples = json.loads((DATA / "vectors/olympiadbench_scoring_examples.json").read_text())
    cases = [(example["GT"], answer) for example in examples for answer in example["Ans"]]
    items = [GradeItem("math", gold, a["answer"], as_tolerance(a.get("precision"))) for gold, a in cases]
    grades = pool.grade_all(items)
    agreeing = sum((got is Grade.CORRECT) == a["equal"] for got, (_, a) in zip(grades, cases, strict=True))
    assert (agreeing, len(cases)) == (36, 36)


def as_tolerance(precision: object) -> str:
    return ",".join(map(str, precision)) if isinstance(precision, list) else str(precision or "")


@needs_data
def test_math_agrees_with_all_published_verdicts_on_gsm8k(pool: VerifierPool) -> None:
    with gzip.open(DATA / "vectors/gsm8k_example_model_solutions.jsonl.gz", "rt") as lines:
        rows = [json.loads(line) for line in lines]
    pairs = [
        (row["ground_truth"], tried) for row in rows for tried in row.values() if isinstance(tried, dict)
    ]
    items = [GradeItem("math", last_line(gold), last_line(tried["solution"])) for gold, tried in pairs]
    grades = pool.grade_all(items)
    assert len(pairs) == 5276
    assert [got is Grade.CORRECT for got in grades] == [tried["is_correct"] for _, tried in pairs]


def last_line(solution: str) -> str:
    return solution.rpartition("A:")[2] if "A:" in solution else ""


def golds_of(name: str) -> list[str]:
    path = DATA / "benchmarks" / name
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        rows = [json.loads(line) for line in lines]
    if name == "minerva_math.jsonl":
        return [last_box(row["solution"]) for row in rows]
    if name == "olympiadbench.jsonl":
        return [row["final_answer"][0] for row in rows]
    if name == "gsm8k.jsonl":
        return [row["answer"].partition("####")[2].strip() for row in rows]
    return sorted({str(row["answer"]) for row in rows})


def last_box(solution: str) -> str:
    content, depth = "", 1
    for character in solution.rpartition(r"\boxed{")[2]:
        depth += (character == "{") - (character == "}")
        if depth == 0:
            break
        content += character
    return content


@needs_data
@pytest.mark.parametrize(
    "name, share",
    [
        ("math500.jsonl", 1),
        ("gsm8k.jsonl", 1),
        ("aime2024.jsonl", 1),
        ("aime2025.jsonl", 1),
        ("aime2026.jsonl", 1),
        ("minerva_math.jsonl", 0.995),
        ("olympiadbench.jsonl", 0.995),
        ("deepscaler.jsonl.gz", 0.995),
    ],
)
@pytest.mark.parametrize("left, right", [("", ""), (r"\boxed{", "}"), ("$", "$")])
def test_golds_equal_themselves_bare_boxed_and_delimited(
    name: str, share: float, left: str, right: str
) -> None:
    golds = golds_of(name)
    settled = [quick(GradeItem("math", gold, f"{left}{gold}{right}")) for gold in golds]
    assert settled.count(Grade.CORRECT) / len(golds) >= share
