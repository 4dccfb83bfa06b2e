"""The settings that all engines share; each engine's own settings are in its file."""

from dataclasses import dataclass
from typing import ClassVar

from calibsft.settings import Settings


@dataclass(frozen=True, slots=True)
class Occupied:
    """What an engine takes of this machine's GPUs, for estimates.

    Attributes
    ----------
    gpus
        How many share one model.
    share
        The share of each GPU's memory that it takes, whatever it needs; None if it takes what it needs.
    rows
        Sequences that are sampled side by side; None for as many as there is room for.
    """

    gpus: int
    share: float | None
    rows: int | None


class EngineSettings(Settings):
    """The engine that samples responses, and its speed."""

    title: ClassVar[str] = "Engine that samples"

    name: str

    def checkpoint(self, model: str) -> str:
        """The checkpoint that must be there to sample from `model`."""
        return model

    def occupied(self) -> Occupied | None:
        """What it takes of GPUs; None if the model is elsewhere."""
        return None

    def inputs(self) -> dict[str, str]:
        """What decides the responses besides the model; a stage is refused if it changes.

        Other settings are about speed and memory, and may change while a stage is unfinished.
        """
        return {}
