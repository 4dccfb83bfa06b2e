"""The model card beside a checkpoint that RL has trained."""

from calibsft import __version__
from calibsft.cards import model_card
from calibsft.responses.prompts import Prompting
from calibsft.rl.method import Method
from calibsft.rl.settings import MethodSettings


def rl_card(
    start: str, method: Method, settings: MethodSettings, prompting: Prompting, questions: int
) -> str:
    story = f"""Made by calibsft {__version__} from `{start}`: {settings.steps} rollout steps of {settings.questions} questions x
{settings.group_size} responses, drawn from {questions:,} questions. A malformed response is rewarded with {method.malformed}."""
    title = f"Trained by {method.title} to state its confidence"
    return model_card(start, (method.name,), title, story, settings, prompting)
