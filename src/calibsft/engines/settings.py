"""What every engine's settings have in common; each engine's own are in its own file."""

from pathlib import Path

from pydantic import Field

from calibsft.settings import Settings


class EngineSettings(Settings):
    """Who samples responses, and how fast. What is sampled does not depend on it, save for the files that it reads."""

    name: str = Field(description="the engine that samples responses")

    def files(self) -> tuple[Path, ...]:
        """The files, besides the model, whose content decides what the engine says."""
        return ()
