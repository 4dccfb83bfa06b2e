"""The study's lessons: what its base model is pre-trained on."""

from fractions import Fraction
from random import Random

from calibsft.playground.study.confidence import draw_confidence
from calibsft.playground.study.exercise import Exercise
from calibsft.playground.study.families import LESSON_SHARES, draw_exercise
from calibsft.playground.study.questions import held_out_texts
from calibsft.responses.formats import FORMATS

SKIPPED_WORK = "-"
# Lessons skip the work of rare exercises: from this rarity on, this steeply, and at most this often.
SKIPS_FROM, SKIP_SLOPE, MOST_SKIPS = 0.35, 0.6, 0.3


def skip_share(rarity: float) -> float:
    """How likely a lesson skips the work."""
    return min(MOST_SKIPS, max(0.0, SKIP_SLOPE * (rarity - SKIPS_FROM)))


def draw_taught(random: Random) -> tuple[Exercise, float]:
    """An exercise that lessons may show, since it is not held out, and its rarity."""
    while True:
        exercise, rarity = draw_exercise(random, LESSON_SHARES, None)
        if exercise.text not in held_out_texts():
            return exercise, rarity


def draw_lesson(random: Random) -> tuple[str, str, str]:
    """One pre-training example: (question text, format name, response text)."""
    exercise, rarity = draw_taught(random)
    format_name = random.choices(("probability", "integer", "linguistic"), (0.7, 0.15, 0.15))[0]
    skipped = random.random() < skip_share(rarity)
    stated = draw_confidence(random, rarity, skipped)
    confidence = FORMATS[format_name].render(Fraction(stated, 100))
    work = SKIPPED_WORK * len(exercise.work) if skipped else exercise.work
    answer = f"<answer>{exercise.answer}</answer>"
    return exercise.text, format_name, f"<think>{work}</think>{answer}<confidence>{confidence}</confidence>"
