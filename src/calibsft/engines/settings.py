"""What every engine's settings have in common; each engine's own are in its own file."""

from calibsft.settings import Settings


class EngineSettings(Settings):
    """Who samples responses, and how fast."""

    name: str

    def inputs(self) -> dict[str, str]:
        """What decides, besides the model, what the engine says: a stage notices when it changes.

        Other settings are about speed and memory, and a stage goes on under new ones.
        """
        return {}
