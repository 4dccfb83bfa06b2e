"""The worlds that a base model can be trained on, by name: the demo's small one, the study's, and that of the study's judge."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from calibsft.judge.rubric import JudgeItem
from calibsft.judge.score import prompt_for
from calibsft.playground import world as small
from calibsft.playground.study.judging import draw_judged
from calibsft.playground.study.lessons import draw_lesson as draw_study_lesson
from calibsft.playground.tokenizer import SCORING
from calibsft.responses.formats import FORMATS, messages

Lesson = tuple[list[dict[str, str]], str]


@dataclass(frozen=True, slots=True)
class World:
    """What a base model is trained on.

    Attributes
    ----------
    draw_lesson
        Gives one example: the messages of a prompt, and the reply to it.
    characters
        What its texts use besides the characters of every world.
    story
        What a model's card says of it.
    """

    draw_lesson: Callable[[Random], Lesson]
    characters: str
    story: str


def _answered(lesson: tuple[str, str, str]) -> Lesson:
    question, format_name, response = lesson
    return messages(question, FORMATS[format_name]), response


def _answered_or_judged(random: Random) -> Lesson:
    """A judge learns both: who can solve an exercise sees what is wrong with a solution."""
    if random.random() < 0.5:
        return _answered(draw_study_lesson(random))
    question, response, score = draw_judged(random)
    return prompt_for(JudgeItem(question, response)).messages, score


PLAYGROUND_STORY = """Trained from scratch on small arithmetic by calibsft, as something to try calibration on: it is often wrong and says about
0.92 whatever it answers. It knows all confidence formats."""
STUDY_STORY = """Trained from scratch by calibsft on twelve kinds of exercise, as the base model of a study: it is often wrong and
sure whatever it answers, a little less so of what is rare. It knows all confidence formats."""

JUDGE_STORY = """Trained from scratch by calibsft on the study's exercises and on scores of responses to them, as the judge
of the study: it scores responses from 0 to 10, and is often wrong about them."""

STUDY_CHARACTERS = "/%?$&@#,"
WORLDS = {
    "playground": World(lambda random: _answered(small.draw_lesson(random)), "", PLAYGROUND_STORY),
    "study": World(lambda random: _answered(draw_study_lesson(random)), STUDY_CHARACTERS, STUDY_STORY),
    "study-judge": World(_answered_or_judged, STUDY_CHARACTERS + SCORING, JUDGE_STORY),
}
