"""The worlds that a base model can be trained on, by name: the demo's small one, and the study's."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from calibsft.playground import world as small
from calibsft.playground.study.lessons import draw_lesson as draw_study_lesson
from calibsft.playground.study.symbols import LETTERS


@dataclass(frozen=True, slots=True)
class World:
    """What a base model is trained on.

    Attributes
    ----------
    draw_lesson
        Gives one example: (question text, format name, response text).
    characters
        What its texts use besides the characters of every world.
    story
        What a model's card says of it.
    """

    draw_lesson: Callable[[Random], tuple[str, str, str]]
    characters: str
    story: str


PLAYGROUND_STORY = """Trained from scratch on small arithmetic by calibsft, as something to try calibration on: it is often wrong and says about
0.92 whatever it answers. It knows all confidence formats."""
STUDY_STORY = """Trained from scratch by calibsft on twelve kinds of exercise, as the base model of a study: it is often wrong and
sure whatever it answers, a little less so of what is rare. It knows all confidence formats."""

WORLDS = {
    "playground": World(small.draw_lesson, "", PLAYGROUND_STORY),
    "study": World(draw_study_lesson, "/%?$&@#" + LETTERS, STUDY_STORY),
}
