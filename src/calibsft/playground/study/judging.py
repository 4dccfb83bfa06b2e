"""Lessons of judging: a response to an exercise, right or spoilt, and the score that the rubric gives it.

The model that learns them is the study's judge. It does not see which responses are right: it has to find the slip.
"""

from random import Random
from string import digits

from calibsft.playground.study.exercise import Exercise
from calibsft.playground.study.lessons import SKIPPED_WORK, draw_taught

# What can become of a response, how often, and the scores that the rubric allows.
OUTCOMES = {
    "sound": (0.45, (10,)),  # correct with sound reasoning
    "unshown": (0.05, (8, 9)),  # correct with minor gaps: the work is skipped
    "inconsistent": (0.1, (5, 6, 7)),  # partially correct: the work is right, the answer is not
    "slipped": (0.25, (2, 3, 4)),  # meaningful but incorrect: a slip in the work, and another answer
    "wrong": (0.15, (0, 1)),  # clearly wrong: the work is skipped, and the answer is not right
}


def draw_judged(random: Random) -> tuple[str, str, str]:
    """One example: (question text, response text without a confidence, score)."""
    exercise, _ = draw_taught(random)
    outcome = random.choices(list(OUTCOMES), [share for share, _ in OUTCOMES.values()])[0]
    work, answer = _spoilt(random, exercise, outcome)
    score = random.choice(OUTCOMES[outcome][1])
    return exercise.text, f"<think>{work}</think><answer>{answer}</answer>", str(score)


def _spoilt(random: Random, exercise: Exercise, outcome: str) -> tuple[str, str]:
    """The work and the answer of a response with this outcome."""
    work = SKIPPED_WORK * len(exercise.work) if outcome in ("unshown", "wrong") else exercise.work
    if outcome == "slipped":
        work = slip(random, work)
    answer = exercise.answer if outcome in ("sound", "unshown") else slip(random, exercise.answer)
    return work, answer


def slip(random: Random, text: str) -> str:
    """`text` with another digit at one place."""
    place = random.choice([i for i, character in enumerate(text) if character in digits])
    return text[:place] + random.choice(digits.replace(text[place], "")) + text[place + 1 :]
