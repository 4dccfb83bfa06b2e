"""What a plan consists of: stages with what must be finished before them, and the models that they make."""

from dataclasses import dataclass

from calibsft.launchers import ServerLaunch
from calibsft.stages.stage import Stage


@dataclass(frozen=True, slots=True)
class Planned:
    """One stage of a run: its folder's name, the stage, and the folders that must be finished before it.

    `launcher` is the command that starts it on several devices; empty for stages that run in this process. `servers` are
    started before it.
    """

    name: str
    stage: Stage
    needs: tuple[str, ...]
    launcher: tuple[str, ...] = ()
    servers: ServerLaunch | None = None

    @property
    def takes_all(self) -> bool:
        """Whether it uses all devices, so that nothing else may run beside it."""
        return bool(self.launcher or self.servers)


@dataclass(frozen=True, slots=True)
class Model:
    """The stages of one model: the one that makes it, none for a base that is loaded, and the one that evaluates it.

    `data` is the training set of a fine-tuned model; `rollouts` are those that tell its training the questions and their
    success rates.
    """

    training: str | None
    evaluation: str
    data: str | None = None
    rollouts: tuple[str, str] | None = None
