"""How the policy gets the newest weights before it samples: in the trainer, or by sending them to servers."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from secrets import token_hex
from typing import TYPE_CHECKING, Protocol

import torch
from accelerate.utils import broadcast_object_list
from trl.models.utils import unwrap_model_for_generation

from calibsft.engines import TrainableEngine
from calibsft.engines.policy.engine import PolicyEngine
from calibsft.training.final import whole_model

if TYPE_CHECKING:
    from calibsft.rl.trainer import RlTrainer


class PolicyWeights(Protocol):
    """Where a policy's weights are while it samples."""

    # Whether another program samples, whose log-probabilities may differ from the trainer's.
    served: bool

    def newest(self, trainer: "RlTrainer") -> AbstractContextManager[None]:
        """Inside this context, the policy samples from the trainer's current weights."""


class InTrainer:
    """The model in training samples itself."""

    served = False

    def __init__(self, engine: TrainableEngine) -> None:
        self._engine = engine

    @contextmanager
    def newest(self, trainer: "RlTrainer") -> Iterator[None]:
        again = trainer.args.gradient_checkpointing_kwargs
        with unwrap_model_for_generation(
            trainer.model_wrapped, trainer.accelerator, gradient_checkpointing_kwargs=again
        ) as model:
            self._engine.update_weights(model.eval())
            try:
                yield
            finally:
                model.train()


class AtServers:
    """Servers sample; they get the weights of all processes, gathered and with adapters merged, after every step."""

    served = True

    def __init__(self, engine: PolicyEngine) -> None:
        self._engine = engine
        # Servers may still have the weights of another training.
        self._training = broadcast_object_list([token_hex(4)])[0]
        self._sent: int | None = None

    @contextmanager
    def newest(self, trainer: "RlTrainer") -> Iterator[None]:
        if self._sent != trainer.state.global_step:
            self._send(trainer)
            self._sent = trainer.state.global_step
        yield

    def _send(self, trainer: "RlTrainer") -> None:
        state = trainer.accelerator.get_state_dict(trainer.model_wrapped)  # by all processes together
        model = None
        if trainer.args.should_save:
            model = whole_model(trainer.accelerator.unwrap_model(trainer.model_wrapped), state)
            model = model.to(torch.bfloat16) if trainer.args.bf16 else model
        self._engine.send_weights(model, f"{self._training}-{trainer.state.global_step}")
        trainer.accelerator.wait_for_everyone()
