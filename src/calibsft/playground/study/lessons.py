"""The study's lessons: what its base model is pre-trained on."""

from fractions import Fraction
from random import Random

from calibsft.playground.study.confidence import draw_confidence
from calibsft.playground.study.families import LESSON_SHARES, draw_exercise
from calibsft.playground.study.questions import held_out_texts
from calibsft.responses.formats import FORMATS

SKIPPED_WORK = "-"
SKIP_SHARE = 0.15


def draw_lesson(random: Random) -> tuple[str, str, str]:
    """One pre-training example: (question text, format name, response text)."""
    exercise, rarity = draw_exercise(random, LESSON_SHARES, None)
    while exercise.text in held_out_texts():
        exercise, rarity = draw_exercise(random, LESSON_SHARES, None)
    format_name = random.choices(("probability", "integer", "linguistic"), (0.7, 0.15, 0.15))[0]
    skipped = random.random() < SKIP_SHARE
    stated = draw_confidence(random, rarity, skipped)
    confidence = FORMATS[format_name].render(Fraction(stated, 100))
    work = SKIPPED_WORK * len(exercise.work) if skipped else exercise.work
    answer = f"<answer>{exercise.answer}</answer>"
    return exercise.text, format_name, f"<think>{work}</think>{answer}<confidence>{confidence}</confidence>"
