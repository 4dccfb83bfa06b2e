"""The trainer: TRL's GRPOTrainer on groups that this package samples and scores.

TRL does the clipped loss, the reference model, optimiser, devices and logging. Two of its methods are replaced:
`get_train_dataloader` yields empty turns, and `_prepare_inputs` fills each with a micro-batch of (B, T) advantages. The loss
divides by the token count of the minibatch. Does not know a method's name or a recipe.
"""

import json
from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

import torch
from accelerate.utils import gather_object
from torch import Tensor
from torch.utils.data import DataLoader
from trl import GRPOTrainer

from calibsft.errors import InputError
from calibsft.rl.batches import Row, TokenCounts, cut, rows_of, tensors, token_counts
from calibsft.rl.dynamics import step_metrics, step_record
from calibsft.rl.method import Method
from calibsft.rl.policy import Policy
from calibsft.rl.sampling import GroupSampler, Step
from calibsft.rl.saved_groups import groups_from_json, groups_to_json
from calibsft.rl.settings import MethodSettings
from calibsft.rl.watching import StepWatch, watched
from calibsft.training.checkpoints import PickleFreeTrainer

SAMPLING_FILE = "sampling.json"


class RlTrainer(PickleFreeTrainer, GRPOTrainer):  # type: ignore[misc]
    """Trains a policy on the groups of a `GroupSampler`."""

    def __init__(
        self,
        *args: Any,
        method: Method,
        settings: MethodSettings,
        policy: Policy,
        sampler: GroupSampler,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        if self.is_fsdp_enabled and not policy.weights.served:
            raise InputError(
                "rl cannot sample from a model that FSDP has cut; let servers sample (rl.policy: served), or use DDP or"
                " DeepSpeed in accelerate's config"
            )
        if "ref" in getattr(self.model, "peft_config", {}):
            # TRL's copy of the new adapter is not needed: the model without adapters is the starting model.
            self.model.delete_adapter("ref")
        self.method, self.settings, self.policy, self.sampler = method, settings, policy, sampler
        self._micro_batches: deque[dict[str, Tensor]] = deque()
        self._watch = StepWatch(settings)
        self._newest_logprobs = torch.zeros(0)
        self.training_since = monotonic()

    def get_train_dataloader(self) -> DataLoader[Any]:
        """One empty turn per micro-batch, the same for every process; `_prepare_inputs` fills it."""
        turns = self.args.max_steps * self.args.gradient_accumulation_steps
        return DataLoader(range(turns), batch_size=1, collate_fn=lambda _: {})  # type: ignore[arg-type]

    def _prepare_inputs(self, turn: dict[str, Any]) -> dict[str, Tensor]:
        if not self._micro_batches:
            self._micro_batches.extend(self._rollout_step())
        return self._micro_batches.popleft()

    def _rollout_step(self) -> list[dict[str, Tensor]]:
        """Sample and score the groups of the next updates; returns one micro-batch per turn."""
        began = monotonic()
        with self.generating():
            sending = monotonic() - began
            step = self.sampler.next_step()
        self._report(step, sending)
        self.training_since = monotonic()
        rows = [
            replace(row, stale=number < step.stale)
            for number, group in enumerate(step.kept)
            for row in rows_of(group, self.method, self.settings)
        ]
        return [batch for part in cut(rows, self.settings.updates) for batch in self._update(part)]

    def generating(self) -> AbstractContextManager[None]:
        """Inside this context, the policy samples from the current weights."""
        return self.policy.weights.newest(self)

    def _update(self, rows: Sequence[Row]) -> list[dict[str, Tensor]]:
        """This process's micro-batches of one update; the loss is a mean over all tokens of `rows`, those of all processes."""
        counts = token_counts(rows)
        own, parts = (
            rows[self.args.process_index :: self.args.world_size],
            self.args.gradient_accumulation_steps,
        )
        return [self._micro_batch(part, counts) for part in cut(own, parts)]

    def _micro_batch(self, rows: Sequence[Row], counts: TokenCounts) -> dict[str, Tensor]:
        batch = tensors(
            rows,
            self.args.per_device_train_batch_size,
            counts,
            bool(self.settings.option("segment_loss")),
            self._tokenizer.pad_token_id,
        )
        batch = {name: tensor.to(self.accelerator.device) for name, tensor in batch.items()}
        if self.beta:
            batch["ref_per_token_logps"] = self._reference_logprobs(batch)
        if self.settings.servers is not None and self.settings.servers.importance_cap is not None:
            self._correct_importance(batch, self.settings.servers.importance_cap)
        # TRL divides by the token count of a whole rollout step times the share of one update.
        share = self.args.gradient_accumulation_steps / self.args.steps_per_generation
        batch["num_items_in_batch"] = torch.tensor(counts.all / share, device=self.accelerator.device)
        return batch

    def _reference_logprobs(self, batch: dict[str, Tensor]) -> Tensor:
        """Log-probabilities under the starting model: a copy, or this model without its adapters."""
        model = self.ref_model or self.accelerator.unwrap_model(self.model)
        with nullcontext() if self.ref_model else model.disable_adapter():
            return self._logprobs(model, batch)

    def _correct_importance(self, batch: dict[str, Tensor], cap: float) -> None:
        """Weigh every token by how likely the trainer is to sample it, against the servers; at most by `cap`.

        The ratio of the loss is then the trainer's own, from before the step's first update.
        """
        own_B_T = self._logprobs(self.model, batch)
        weights_B_T = (own_B_T - batch["old_per_token_logps"]).exp().clamp(max=cap)
        batch["advantages"] = batch["advantages"] * weights_B_T
        batch["sampler_logps"], batch["old_per_token_logps"] = batch["old_per_token_logps"], own_B_T

    @torch.no_grad()
    def _logprobs(self, model: Any, batch: dict[str, Tensor]) -> Tensor:
        logprobs_B_T: Tensor = self._get_per_token_logps_and_entropies(
            model,
            torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1),
            torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1),
            batch["completion_ids"].size(1),
        )[0]
        return logprobs_B_T

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
        found = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        self._newest_logprobs = found[0].detach()
        return found

    def _compute_loss(self, model: Any, inputs: dict[str, Tensor]) -> Tensor:
        loss: Tensor = super()._compute_loss(model, inputs)
        first = self.state.global_step % self.settings.updates == 0
        self._watch.add(inputs, self._newest_logprobs, first)
        return loss

    def _report(self, step: Step, sending: float) -> None:
        groups = [step_record(group, self.method, self.settings) for group in step.generated]
        times = self.policy.take_times()
        self._note(step_metrics(groups) | times | {"seconds/weights": sending})
        tokens = sum(n for group in groups for n in group.lengths)
        self._note({"tokens_per_second": tokens / max(times["seconds/generate"], 1e-9)})
        self._note({"generated_groups": len(step.generated), "kept_groups": len(step.kept)})
        self._note({"stale_groups": step.stale / max(len(step.kept), 1)})
        self._note({"batches": step.batches, "generated_batches": self.sampler.batches})
        self._note({"updates": self.state.global_step + self.settings.updates})

    def _note(self, figures: dict[str, float]) -> None:
        """Add figures to TRL's log of this step."""
        for name, value in figures.items():
            self._metrics["train"][name].append(value)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        if "loss" in logs:  # once per rollout step, after its last update
            self._note({"seconds/train": monotonic() - self.training_since})
            self._note(watched(self.accelerator.reduce(self._watch.sums.to(self.accelerator.device))))
            self._watch = StepWatch(self.settings)
        super().log(logs, start_time)

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """Write none for checkpoints during training: the stage writes its own for the final one."""

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        folder = Path(self._get_output_dir(trial=trial), f"checkpoint-{self.state.global_step}")
        state = {
            "tokens": sum(gather_object([self.policy.tokens])),
            "asked": self.sampler.asked,
            "batches": self.sampler.batches,
            "surplus": groups_to_json(self.sampler.surplus),
        }
        if self.args.should_save:
            (folder / SAMPLING_FILE).write_text(json.dumps(state), encoding="utf-8")
        self.accelerator.wait_for_everyone()  # next, the first process marks the checkpoint as complete

    def load_sampling(self, checkpoint: Path) -> None:
        """Continue with the checkpoint's next question and its surplus."""
        state = json.loads((checkpoint / SAMPLING_FILE).read_text(encoding="utf-8"))
        self.policy.tokens = (
            state["tokens"] if self.args.should_save else 0
        )  # all processes' tokens are added up
        self.sampler.asked, self.sampler.batches = state["asked"], state["batches"]
        self.sampler.surplus = groups_from_json(state["surplus"])
