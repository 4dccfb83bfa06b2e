"""The parts of a config that both kinds of training share: model, adapters, optimiser, watchers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from calibsft.errors import InputError
from calibsft.hub import name_and_revision
from calibsft.training.settings import LoraSettings


def local_model(model: str) -> str:
    """The model as verl finds it from any folder: an absolute path, or a name on the Hub."""
    if Path(model).exists():
        return str(Path(model).resolve())
    name, revision = name_and_revision(model)
    if revision:
        raise InputError(
            f"{model}: verl takes no revision of a model; download that one and give its folder with --model"
        )
    return name


def adapters(lora: LoraSettings | None) -> dict[str, Any]:
    """verl's keys of the adapters; none without adapters."""
    if lora is None:
        return {}
    modules = lora.target_modules if isinstance(lora.target_modules, str) else list(lora.target_modules)
    return {"lora_rank": lora.rank, "lora_alpha": lora.alpha, "target_modules": modules}


def optimiser(learning_rate: float, warmup_steps: int) -> dict[str, Any]:
    """AdamW as `calibsft` trains: no weight decay."""
    return {"lr": learning_rate, "lr_warmup_steps": warmup_steps, "weight_decay": 0.0}


def watchers(report_to: Sequence[str]) -> list[str]:
    """Where verl reports: to the terminal, and to the recipe's services, whose names verl knows."""
    return ["console", *report_to]
