"""What both trainings share: the arguments of transformers, and the way from the newest checkpoint to the end."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from transformers import PrinterCallback, TrainingArguments

from calibsft.artifacts import JOURNAL
from calibsft.models import pick_device
from calibsft.progress import Progress
from calibsft.training.checkpoints import CHECKPOINTS, PickleFreeTrainer, checkpoint_step, latest_checkpoint
from calibsft.training.journal import Journal

Arguments = TypeVar("Arguments", bound=TrainingArguments)


def make_arguments(kind: type[Arguments], folder: Path, seed: int, device: str, **own: Any) -> Arguments:
    """A trainer's arguments: those of every training, and its `own`, which win."""
    on_cpu = pick_device(device).type == "cpu"
    shared = {
        "output_dir": str(folder / CHECKPOINTS),
        "optim": "adamw_torch",
        "adam_beta1": 0.9,
        "adam_beta2": 0.999,
        "weight_decay": 0.0,
        "max_grad_norm": 1.0,
        "logging_nan_inf_filter": False,
        "save_strategy": "steps",
        "save_total_limit": 2,
        "seed": seed,
        "data_seed": seed,
        "use_cpu": on_cpu,
        "bf16": not on_cpu,
        "disable_tqdm": True,
        "remove_unused_columns": False,
        "ddp_find_unused_parameters": False,
        "dataloader_pin_memory": not on_cpu,
    }
    arguments: Arguments = kind(**shared | own)
    return arguments


def run(
    trainer: PickleFreeTrainer,
    folder: Path,
    label: str,
    steps: int,
    note: Callable[[dict[str, float]], str],
    updates: int = 1,
) -> None:
    """Train to the end, from the newest complete checkpoint if there is one; `updates` and `note` as for a `Journal`."""
    # It prints every step to standard output, which is for results only.
    trainer.remove_callback(PrinterCallback)
    checkpoint = latest_checkpoint(folder / CHECKPOINTS)
    done = checkpoint_step(checkpoint) // updates
    if checkpoint is not None:
        trainer.require_resumable(checkpoint)
        trainer.load_sampling(checkpoint)
    with Progress(label, steps, "steps", done) as progress:
        trainer.add_callback(Journal(folder / JOURNAL, done, progress, note, updates))
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
