"""The section `calibsft` of a verl config: what the reward manager and the trainer need of a recipe."""

from typing import TYPE_CHECKING, Any

from calibsft.errors import InputError
from calibsft.judge.settings import JudgeSettings
from calibsft.responses.settings import FormatName
from calibsft.rl.methods import MethodSection
from calibsft.settings import Settings, validated

if TYPE_CHECKING:
    from omegaconf import DictConfig

# The names under which verl knows the section, the trainer and the reward manager.
SECTION = "calibsft"
TRAINER = "calibsft_sync"
REWARD_MANAGER = "calibsft"
# Where to watch a training is a setting of verl's own.
UNUSED = {"report_to"}


class PluginSettings(Settings):
    """How responses are read, graded and rewarded."""

    format: FormatName
    rl: MethodSection
    judge: JudgeSettings = JudgeSettings()

    def section(self) -> dict[str, Any]:
        """The settings as plain data for the config."""
        return self.model_dump(mode="json", exclude={"rl": UNUSED})


def read_section(config: "DictConfig") -> PluginSettings:
    """The settings in a config of verl."""
    from omegaconf import OmegaConf

    if SECTION not in config:
        raise InputError(
            f"the config has no section {SECTION}; write one with calibsft export verl RECIPE and start from that"
        )
    return validated(PluginSettings, OmegaConf.to_container(config[SECTION], resolve=True), SECTION)
