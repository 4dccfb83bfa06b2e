"""verl's synchronous trainer with the advantages of `calibsft.rl`: one per token.

verl samples, drops groups, keeps the reference, computes the loss and updates. One of its methods is extended: after verl
has computed its own advantages, which may correct for the sampler's rounding, those of the method replace them.
"""

from typing import Any

import torch
import transfer_queue as tq
from tensordict import TensorDict
from verl.trainer.ppo.v1 import PPOTrainerSync

from calibsft.integrations.verl.advantages import Sampled, token_advantages, update_numbers
from calibsft.integrations.verl.record import ResponseRecord
from calibsft.integrations.verl.settings import SECTION, read_section


class CalibPpoTrainer(PPOTrainerSync):  # type: ignore[misc]
    """Trains with the method that the config's section names."""

    def __init__(self, config: Any) -> None:
        self._method_settings = read_section(config).rl
        # verl looks this trainer up by its own name, and then compares the mode with this one.
        config.trainer.v1.trainer_mode = "sync"
        super().__init__(config)

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        batch = super()._compute_advantage(batch, metrics)
        data = tq.kv_batch_get(
            keys=batch.keys, partition_id=batch.partition_id, select_fields=["responses", "extra_fields"]
        )
        ids, extra = data["responses"].unbind(), [_plain(value) for value in data["extra_fields"]]
        real = [place for place, tag in enumerate(batch.tags) if not tag.get("is_padding", False)]
        updates = self._updates(len(batch))
        sampled = [
            Sampled(
                batch.keys[place].rsplit("_", 2)[0],
                updates[place],
                tuple(ids[place].tolist()),
                ResponseRecord.read(extra[place]["reward_extra_info"]),
            )
            for place in real
        ]
        found, figures = token_advantages(sampled, self._method_settings)
        metrics.update({f"{SECTION}/{name}": value for name, value in figures.items()})
        rows = [torch.zeros(len(row)) for row in ids]
        for place, advantages_T in zip(real, found, strict=True):
            rows[place] = torch.from_numpy(advantages_T).float()
        nested = torch.nested.as_nested_tensor(rows, layout=torch.jagged)
        fields = TensorDict({"advantages": nested, "returns": nested}, batch_size=len(batch))
        return tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=fields)

    def _updates(self, rows: int) -> list[int]:
        """The update that trains on each row of the batch."""
        actor = self.config.actor_rollout_ref
        ranks = max(self.actor_rollout_wg._dispatch_info["actor"]) + 1
        return update_numbers(rows, ranks, actor.actor.ppo_mini_batch_size * actor.rollout.n)


def _plain(value: Any) -> Any:
    """A value without tensordict's wrapper, which some storages of verl leave around it."""
    return getattr(value, "data", value)
