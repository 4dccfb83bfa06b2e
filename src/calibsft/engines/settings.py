"""The settings that all engines share; each engine's own settings are in its file."""

from calibsft.settings import Settings


class EngineSettings(Settings):
    """The engine that samples responses, and its speed."""

    name: str

    def checkpoint(self, model: str) -> str:
        """The checkpoint that must be there to sample from `model`."""
        return model

    def inputs(self) -> dict[str, str]:
        """What decides the responses besides the model; a stage is refused if it changes.

        Other settings are about speed and memory, and may change while a stage is unfinished.
        """
        return {}
