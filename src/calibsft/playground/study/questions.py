"""The study's questions: sixteen benchmarks and the training pool.

A benchmark asks kinds of exercise with parts from a band of ranks, uniformly. Its questions occur neither in pre-training
nor in the training pool nor in another benchmark, facts excepted: those are asked as they were taught.
"""

from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Literal

from calibsft.playground.study.exercise import Exercise
from calibsft.playground.study.facts import WORLD_SEED
from calibsft.playground.study.families import TRAINED_SHARES, draw_exercise
from calibsft.schema import Question

QUESTIONS = 150
TRAINING_QUESTIONS = 3000
# A band that has given too few new exercises after this many draws for each question has no more.
MOST_DRAWS = 100


@dataclass(frozen=True, slots=True)
class Section:
    """The questions of one benchmark: kinds with their shares, and the band of ranks."""

    domain: Literal["id", "ood"]
    shares: dict[str, float]
    band: tuple[float, float]
    description: str
    held_out: bool = True


SECTIONS = {
    "eval": Section("id", TRAINED_SHARES, (0, 1), "the mix that is trained on"),
    "product-small": Section("id", {"product": 1}, (0, 0.5), "products of common numbers"),
    "product-wide": Section("id", {"product": 1}, (0, 1), "products of all numbers"),
    "product-large": Section("id", {"product": 1}, (0.4, 1), "products of rare numbers"),
    "chain": Section("id", {"chain": 1}, (0, 1), "a product by one digit plus a number"),
    "sum": Section("id", {"sum": 1}, (0, 1), "sums of two numbers"),
    "difference": Section("id", {"difference": 1}, (0, 1), "differences of two numbers"),
    "quotient": Section("id", {"quotient": 1}, (0, 1), "divisions without remainder"),
    "fact-common": Section("ood", {"fact": 1}, (0, 0.5), "common facts", held_out=False),
    "fact-rare": Section("ood", {"fact": 1}, (0.5, 1), "rare facts", held_out=False),
    "cross": Section("ood", {"cross": 1}, (0, 1), "products written with x"),
    "remainder": Section("ood", {"remainder": 1}, (0, 1), "what a division leaves"),
    "larger": Section("ood", {"larger": 1}, (0, 1), "the larger of two products"),
    "digit-sum": Section("ood", {"digit_sum": 1}, (0, 1), "the sum of four digits"),
    "sort": Section("ood", {"sort": 1}, (0, 1), "four digits in order"),
    "sequence": Section("ood", {"sequence": 1}, (0, 1), "the next number of a row"),
}


@cache
def section_questions(name: str) -> tuple[Question, ...]:
    """The questions of one section, the same in every run."""
    return _all_questions()[name]


@cache
def held_out_texts() -> frozenset[str]:
    """The text of every evaluation question that is in no lesson."""
    held_out = (questions for name, questions in _all_questions().items() if SECTIONS[name].held_out)
    return frozenset(question.text for questions in held_out for question in questions)


@cache
def training_questions() -> tuple[Question, ...]:
    """The pool of CalibSFT and RL: the trained kinds with uniform parts, disjoint from every evaluation question."""
    random = Random(f"{WORLD_SEED} training")
    return _draw(random, TRAINED_SHARES, (0, 1), TRAINING_QUESTIONS, "study-train", set(held_out_texts()))


@cache
def _all_questions() -> dict[str, tuple[Question, ...]]:
    taken: set[str] = set()
    random = {name: Random(f"{WORLD_SEED} {name}") for name in SECTIONS}
    return {
        name: _draw(random[name], section.shares, section.band, QUESTIONS, f"study-{name}", taken)
        for name, section in SECTIONS.items()
    }


def _draw(
    random: Random,
    shares: dict[str, float],
    band: tuple[float, float],
    count: int,
    dataset: str,
    taken: set[str],
) -> tuple[Question, ...]:
    """`count` questions that are not in `taken`, which then has them too."""
    questions: list[Question] = []
    for _ in range(MOST_DRAWS * count):
        if len(questions) == count:
            return tuple(questions)
        exercise, _ = draw_exercise(random, shares, band)
        if exercise.text not in taken:
            taken.add(exercise.text)
            questions.append(_question(exercise, dataset))
    raise ValueError(f"{dataset}: its band has too few exercises for {count} questions")


def _question(exercise: Exercise, dataset: str) -> Question:
    return Question(
        id=exercise.text, text=exercise.text, gold=exercise.answer, grader="exact", dataset=dataset
    )
