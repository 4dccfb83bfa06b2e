"""The arithmetic world: its questions, its example responses, and which questions are held out.

Three families share one shape of response - two partial results, their sum, a confidence - so that a tiny
model can learn them together:

* `multiply`      57*77    -> 3990+399 -> 4389   (in distribution: CalibSFT trains on these)
* `cross`         57x77    the same products in another notation (out of distribution)
* `multiply_add`  57*7+38  -> 0399+038 -> 0437   (out of distribution)

Questions differ in difficulty: operands follow a Zipf law in pre-training and are uniform in the questions, so large
operands are rare and hard. A quarter of the traces skip the work and guess, so a trace is evidence too. The confidence does
not depend on correctness: it is drawn from one fixed, over-confident distribution. Does not know models or tokens.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from random import Random

from calibsft.responses.formats import FORMATS
from calibsft.schema import Question

OPERANDS = tuple(range(10, 100))
SKIPPED_WORK = "--------"
SKIP_SHARE = 0.25
HELD_OUT_QUESTIONS = 1000
OTHER_FAMILY_QUESTIONS = 500
# The world is the same for every seed of a run: seeds differ only in training.
WORLD_SEED = 43

# Stated confidences in hundredths and their shares: the prior of an over-confident base model.
PRIOR = {95: 36, 90: 22, 100: 14, 98: 7, 99: 6, 85: 5, 80: 4, 92: 2, 70: 2, 45: 1, 20: 1}


@dataclass(frozen=True, slots=True)
class Problem:
    """One exercise: its text, the two partial results, and the answer, all of fixed width."""

    text: str
    first: int
    second: int

    @property
    def work(self) -> str:
        return f"{self.first:04d}+{self.second:03d}"

    @property
    def answer(self) -> str:
        return f"{self.first + self.second:04d}"


def multiply(a: int, b: int, sign: str = "*") -> Problem:
    return Problem(f"{a}{sign}{b}", a * (b // 10) * 10, a * (b % 10))


def multiply_add(a: int, digit: int, c: int) -> Problem:
    return Problem(f"{a}*{digit}+{c}", a * digit, c)


# Small numbers are common and large ones rare, as in most text. A steeper law leaves too few easy questions.
ZIPF_WEIGHTS = tuple(rank**-0.7 for rank in range(1, len(OPERANDS) + 1))


def zipf_operand(random: Random) -> int:
    return random.choices(OPERANDS, ZIPF_WEIGHTS)[0]


# Each kind of exercise: its share in pre-training, and how one is drawn.
FAMILIES: dict[str, tuple[float, Callable[[Random], Problem]]] = {
    "multiply": (0.7, lambda random: multiply(zipf_operand(random), zipf_operand(random))),
    "cross": (0.15, lambda random: multiply(zipf_operand(random), zipf_operand(random), sign="x")),
    "multiply_add": (
        0.15,
        lambda random: multiply_add(zipf_operand(random), random.randint(2, 9), random.choice(OPERANDS)),
    ),
}


@cache
def held_out_texts() -> frozenset[str]:
    """The text of every evaluation question; none is in pre-training or in the training pool."""
    return frozenset(question.text for family in FAMILIES for question in held_out_questions(family))


@cache
def _shuffled_pairs() -> tuple[tuple[int, int], ...]:
    pairs = [(a, b) for a in OPERANDS for b in OPERANDS]
    Random(WORLD_SEED + 1).shuffle(pairs)
    return tuple(pairs)


def _question(problem: Problem, dataset: str) -> Question:
    return Question(id=problem.text, text=problem.text, gold=problem.answer, grader="exact", dataset=dataset)


@cache
def held_out_questions(family: str) -> tuple[Question, ...]:
    """The evaluation questions of one family, the same in every run."""
    if family == "multiply":
        return tuple(_question(multiply(a, b), family) for a, b in _shuffled_pairs()[:HELD_OUT_QUESTIONS])
    random = Random(f"{WORLD_SEED} {family}")
    problems: dict[str, Problem] = {}
    while len(problems) < OTHER_FAMILY_QUESTIONS:
        a, b = random.choice(OPERANDS), random.choice(OPERANDS)
        problem = multiply(a, b, "x") if family == "cross" else multiply_add(a, random.randint(2, 9), b)
        problems[problem.text] = problem
    return tuple(_question(problem, family) for problem in problems.values())


@cache
def training_questions() -> tuple[Question, ...]:
    """Multiplication questions with uniform operands, disjoint from every evaluation question."""
    return tuple(
        _question(multiply(a, b), "multiply-train") for a, b in _shuffled_pairs()[HELD_OUT_QUESTIONS:]
    )


def draw_lesson(random: Random) -> tuple[str, str, str]:
    """One pre-training example: (question text, format name, response text)."""
    _, draw = random.choices(list(FAMILIES.values()), [share for share, _ in FAMILIES.values()])[0]
    problem = draw(random)
    while problem.text in held_out_texts():
        problem = draw(random)
    format_name = random.choices(("probability", "integer", "linguistic"), (0.7, 0.15, 0.15))[0]
    stated = random.choices(list(PRIOR), list(PRIOR.values()))[0]
    confidence = FORMATS[format_name].render(Fraction(stated, 100))
    work = SKIPPED_WORK if random.random() < SKIP_SHARE else problem.work
    response = f"<think>{work}</think><answer>{problem.answer}</answer><confidence>{confidence}</confidence>"
    return problem.text, format_name, response
