"""The step `warmup` of a pipeline: a model learns the response format from its own well-formed responses.

It is asked with worked examples, and fine-tuned under the plain prompt on every response that is well formed, whatever
that answers and however sure it is. Holds the settings of the step; `pipeline` makes its stages.
"""

from collections.abc import Mapping
from typing import Any

from calibsft.questions import QuestionSettings
from calibsft.rollouts.settings import RolloutSettings
from calibsft.settings import Settings, merged
from calibsft.sft.settings import SftSettings


class WarmupSettings(Settings):
    """The questions, how they are asked, and the fine-tuning."""

    questions: QuestionSettings
    rollout: RolloutSettings
    sft: SftSettings


def completed(given: dict[str, Any], recipe: Mapping[str, Any]) -> dict[str, Any]:
    """`given` with the values that it leaves out as in the recipe's own sections of the same names.

    The loss is not CalibSFT's: every token of all responses is trained.
    """
    known = {name: recipe[name].model_dump() for name in WarmupSettings.model_fields if name in recipe}
    if "sft" in known:
        known["sft"] = {key: value for key, value in known["sft"].items() if key != "beta"}
        known["sft"]["loss"] = "full-ce"
    return merged(known, given)
