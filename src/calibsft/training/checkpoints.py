"""Checkpoints of a running training: safetensors and JSON only.

They are in `checkpoints/`. A checkpoint counts only with its completeness mark, which is written last, so a kill loses at
most the checkpoint that is being written. The final checkpoint is in `training.final`.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import Trainer

from calibsft.progress import FIRST_PROCESS, info

OPTIMIZER_FILE, RANDOM_FILE = "optimizer.safetensors", "random.safetensors"
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

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        if self.is_deepspeed_enabled or self.is_fsdp_enabled:
            super()._save_optimizer_and_scheduler(output_dir)
        elif self.args.should_save:
            state = self.optimizer.state_dict()
            tensors = {
                f"{i}.{key}": value for i, slots in state["state"].items() for key, value in slots.items()
            }
            plain = {
                "groups": json.dumps(state["param_groups"]),
                "scheduler": json.dumps(self.lr_scheduler.state_dict()),
            }
            save_file(tensors, Path(output_dir, OPTIMIZER_FILE), metadata=plain)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        path = Path(checkpoint or "", OPTIMIZER_FILE)
        if checkpoint is None or not path.is_file():
            super()._load_optimizer_and_scheduler(checkpoint)
            return
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in load_file(path).items():
            index, key = name.split(".", 1)
            state.setdefault(int(index), {})[key] = tensor
        with safe_open(path, framework="pt") as file:
            plain = file.metadata()
        self.optimizer.load_state_dict({"state": state, "param_groups": json.loads(plain["groups"])})
        self.lr_scheduler.load_state_dict(json.loads(plain["scheduler"]))

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
