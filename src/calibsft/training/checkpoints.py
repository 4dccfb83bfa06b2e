"""Checkpoints of a running training: safetensors and JSON only.

They are in `checkpoints/`. A checkpoint counts only with its completeness mark, which is written last, so a kill loses at
most the checkpoint that is being written. The final checkpoint is in `training.final`.
"""

import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import Trainer

from calibsft.progress import FIRST_PROCESS, info
from calibsft.training.shards import (
    Part,
    load_optimizer_part,
    load_trained_part,
    read_shard,
    require_layout,
    trained_part,
    write_shard,
)
from calibsft.training.zero import load_zero_state, zero_state

RANDOM_FILE = "random.safetensors"
COMPLETE_MARK = "complete"
CHECKPOINTS = "checkpoints"


class PickleFreeTrainer(Trainer):  # type: ignore[misc]
    """transformers' Trainer without the files that it pickles: arguments, optimiser, random states."""

    def _save(self, output_dir: str | None = None, state_dict: dict[str, Any] | None = None) -> None:
        # The library's own function pickles the training arguments beside the weights.
        folder = output_dir or self.args.output_dir
        self.model.save_pretrained(folder, state_dict=state_dict)
        if self.args.should_save:
            self.processing_class.save_pretrained(folder)

    @property
    def _is_cut(self) -> bool:
        """Whether every process has a part of the training's state."""
        return bool(self.is_deepspeed_enabled or self.is_fsdp_enabled)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        # The parts of a running checkpoint have the weights; gathering them all would take long and much memory.
        if not (_internal_call and self._is_cut):
            super().save_model(output_dir, _internal_call)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        # Next, the first process marks the checkpoint as complete: every part must be there.
        self.accelerator.wait_for_everyone()

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        if not (self._is_cut or self.args.should_save):
            return
        Path(output_dir).mkdir(parents=True, exist_ok=True)  # another process may have made it
        write_shard(Path(output_dir), self._part, self._running_state())

    @property
    def _part(self) -> Part:
        """The part of the training's state that this process saves and loads."""
        if not self._is_cut:
            return Part()
        zero = self.is_deepspeed_enabled
        cut_by = f"ZeRO-{self.accelerator.state.deepspeed_plugin.zero_stage}" if zero else "FSDP"
        return Part(self.args.process_index, self.args.world_size, cut_by)

    def require_resumable(self, checkpoint: Path) -> None:
        """Refuse a checkpoint that this training cannot go on from."""
        require_layout(checkpoint, self._part)

    def _running_state(self) -> dict[str, Any]:
        """What a checkpoint needs besides the model: of a cut training also this process's part of the model."""
        scheduler = {"scheduler": self.lr_scheduler.state_dict()}
        if self.is_deepspeed_enabled:
            return scheduler | {"zero": zero_state(self.deepspeed)}
        model = {"model": trained_part(self.model)} if self.is_fsdp_enabled else {}
        return scheduler | model | {"optimizer": self.optimizer.state_dict()}

    def _prepare_for_training(
        self, max_steps: int, train_dataloader: Any, resume_from_checkpoint: str | None
    ) -> Any:
        # The library would look for its own files of a cut training.
        known = None if self._is_cut else resume_from_checkpoint
        prepared = super()._prepare_for_training(max_steps, train_dataloader, known)
        if self._is_cut:
            self._load_optimizer_and_scheduler(resume_from_checkpoint)
        return prepared

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is None:
            return
        state = read_shard(Path(checkpoint), self._part)
        if self.is_deepspeed_enabled:
            load_zero_state(self.deepspeed, state["zero"])
        else:
            load_trained_part(self.model, state.get("model", {}))
            load_optimizer_part(self.optimizer, state["optimizer"])
        self.lr_scheduler.load_state_dict(state["scheduler"])

    def _save_rng_state(self, output_dir: str) -> None:
        Path(output_dir).mkdir(parents=True, exist_ok=True)  # the first process may not have made it yet
        states = {"cpu": torch.get_rng_state()}
        if torch.cuda.is_available():
            states["cuda"] = torch.cuda.get_rng_state()
        save_file(states, Path(output_dir, f"{self.args.process_index}-{RANDOM_FILE}"))

    def _load_rng_state(self, checkpoint: str | None) -> None:
        path = Path(checkpoint or "", f"{self.args.process_index}-{RANDOM_FILE}")
        if checkpoint is None or not path.is_file():
            return
        states = load_file(path)
        torch.set_rng_state(states["cpu"])
        if "cuda" in states:
            torch.cuda.set_rng_state(states["cuda"])

    def load_sampling(self, checkpoint: Path) -> None:
        """Continue with the sampling of `checkpoint`; only RL has one."""


def latest_checkpoint(folder: Path) -> Path | None:
    """The newest complete checkpoint; incomplete ones are removed."""
    checkpoints = sorted(folder.glob("checkpoint-*"), key=checkpoint_step)
    complete = [checkpoint for checkpoint in checkpoints if (checkpoint / COMPLETE_MARK).is_file()]
    for incomplete in set(checkpoints) - set(complete) if FIRST_PROCESS else ():
        info(f"{incomplete} was not written completely and is discarded")
        shutil.rmtree(incomplete)
    return complete[-1] if complete else None


def checkpoint_step(checkpoint: Path | None) -> int:
    return int(checkpoint.name.split("-")[1]) if checkpoint else 0
