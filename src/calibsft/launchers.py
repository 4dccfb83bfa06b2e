"""The section `launch` of a recipe: how the trainings of a run are started on several devices.

A training's command is what comes before `-m calibsft …`, such as `accelerate launch --config_file fsdp2.yaml`. Holds
settings only; `pipeline.launched` starts the command.
"""

import shlex
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, field_validator

from calibsft.settings import Settings
from calibsft.shipped import LAUNCHERS, shipped_folders


def _words(given: Any) -> Any:
    """The words of a command; a configuration that is not found from here is the shipped one of that name."""
    words = shlex.split(given) if isinstance(given, str) else given
    return [_found(word) if isinstance(word, str) else word for word in words] if words else ()


def _found(word: str) -> str:
    if not word.endswith((".yaml", ".json")) or Path(word).exists():
        return word
    shipped = (folder / Path(word).name for folder in shipped_folders(LAUNCHERS))
    return next((str(path) for path in shipped if path.is_file()), word)


Command = Annotated[tuple[Annotated[str, Field(min_length=1)], ...], BeforeValidator(_words)]


class ServerLaunch(Settings):
    """Servers of a policy in training, on this machine, for the time of each RL stage; the recipe's `rl.policy` is served."""

    command: Command = Field(
        ("calibsft", "policy-server"), description="what serves a model; the model and --port are added"
    )
    gpus: tuple[str, ...] = Field(
        ("",),
        min_length=1,
        description="the GPUs of each server, as in CUDA_VISIBLE_DEVICES: [4, 5] are two servers, ['4,5'] is one of two GPUs",
    )
    port: int = Field(8000, ge=1, le=65000, description="port of the first server; the others follow")
    patience: float = Field(900, gt=0, description="seconds until a server must answer")

    @field_validator("gpus", mode="before")
    @classmethod
    def _as_text(cls, given: Any) -> Any:
        return [str(gpu) for gpu in given] if isinstance(given, list | tuple) else given

    @property
    def urls(self) -> tuple[str, ...]:
        return tuple(f"http://127.0.0.1:{self.port + number}" for number in range(len(self.gpus)))


class LaunchSettings(Settings):
    """The commands that start trainings, for example `torchrun --nproc_per_node 8`; empty for one process."""

    sft: Command = ()
    rl: Command = ()
    servers: ServerLaunch | None = None
    gpu_memory_gb: float | None = Field(
        None, gt=0, description="memory of each GPU in GB, for estimates; default: that of the first GPU here"
    )

    def command(self, kind: str) -> tuple[str, ...]:
        """The command for stages of this kind; empty for those that are never launched."""
        commands: dict[str, tuple[str, ...]] = {"sft": self.sft, "rl": self.rl}
        return commands.get(kind, ())
