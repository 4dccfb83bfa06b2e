"""The trainer: transformers' Trainer with CalibSFT's loss.

Overrides a few named extension points. The loss divides by the counts of the global batch - all accumulation steps, all
ranks - so Trainer's own loss scaling is switched off. Does not read files: that is `sft.fine_tune`.
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from calibsft.sft.head import losses_at
from calibsft.sft.loss import CONFIDENCE, NONE, Counts, token_weights
from calibsft.sft.settings import SftSettings
from calibsft.training.checkpoints import PickleFreeTrainer


class CalibSftTrainer(PickleFreeTrainer):
    """Trains on `sft.batches` tensors with the loss of `SftSettings`."""

    # The loss is already normalised over the whole accumulated batch.
    loss_is_scaled_for_ga = True

    def __init__(self, *args: Any, sft: SftSettings, tiled: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sft, self._tiled = sft, tiled
        self._terms = torch.zeros(2)

    def _get_num_items_in_batch(self, batch_samples: list[dict[str, Tensor]], device: torch.device) -> Tensor:
        """The numbers of correct responses, responses and tokens of the global batch."""
        local = torch.zeros(3, device=device)
        for batch in batch_samples:
            tokens = (batch["segments"] != NONE).sum()
            local += torch.tensor([batch["correct"].sum(), len(batch["correct"]), tokens], device=device)
        total: Tensor = self.accelerator.reduce(local, reduction="sum")
        return total

    def compute_loss(
        self,
        model: PreTrainedModel,
        inputs: dict[str, Tensor],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | None = None,
    ) -> Tensor:
        assert num_items_in_batch is not None, "the trainer counts every batch"
        counts = Counts(*num_items_in_batch.tolist())
        head = self.accelerator.unwrap_model(model).get_output_embeddings()
        loss, terms = batch_loss(model, head, inputs, counts, self.sft, self._tiled)
        self._terms = self._terms.to(terms.device) + terms
        # Gradients are averaged over ranks, but this rank's part of the sum must count fully.
        return loss * int(self.accelerator.num_processes)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        if "loss" in logs:
            reasoning, confidence = self.accelerator.reduce(self._terms, reduction="sum").tolist()
            logs |= {"loss_reasoning": reasoning, "loss_confidence": confidence}
            self._terms = torch.zeros(2)
        super().log(logs, start_time)


def batch_loss(
    model: nn.Module,
    head: nn.Module,
    inputs: dict[str, Tensor],
    counts: Counts,
    sft: SftSettings,
    tiled: bool = False,
) -> tuple[Tensor, Tensor]:
    """This micro-batch's part of the global loss, and its two terms (reasoning, confidence).

    `head` and `tiled` as in `losses_at`.
    """
    weights_B_T = token_weights(sft.loss, inputs["segments"], inputs["correct"], counts, sft.beta)
    losses_N, predicted_B_T = losses_at(model, head, inputs, weights_B_T > 0, tiled)
    losses_N = losses_N * weights_B_T[predicted_B_T]
    confidence_N = inputs["segments"][predicted_B_T] == CONFIDENCE
    terms = torch.stack([losses_N[~confidence_N].sum(), losses_N[confidence_N].sum()])
    return terms.sum(), terms.detach()
