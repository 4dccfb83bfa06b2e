"""The state of a training that FSDP or DeepSpeed has cut: each process saves and loads its own part.

A part is one safetensors file; what is no tensor is JSON in its header. Only the trained parameters are in it, since the
others are those of the starting model. Does not gather anything: that is `training.final`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from calibsft.errors import InputError

SHARD_FILE = "shard.safetensors"
STATE, PARTS = "state", "parts"


@dataclass(frozen=True, slots=True)
class Part:
    """A process's part of a training's state: of how many it is, and what has cut it; one part is the whole."""

    number: int = 0
    parts: int = 1
    cut_by: str = ""

    @property
    def layout(self) -> str:
        """How the state is cut, in words; the same for all parts."""
        return f"cut by {self.cut_by} for {self.parts} processes" if self.cut_by else "whole"


def write_shard(folder: Path, part: Part, state: Mapping[str, Any]) -> None:
    """Write one process's part: dicts and lists of tensors and plain values."""
    tensors: dict[str, Tensor] = {}
    header = {STATE: json.dumps(_packed(state, tensors)), PARTS: part.layout}
    save_file(tensors, _file(folder, part.number), metadata=header)


def read_shard(folder: Path, part: Part) -> dict[str, Any]:
    """The inverse of `write_shard`."""
    require_layout(folder, part)
    with safe_open(_file(folder, part.number), framework="pt") as file:
        state: dict[str, Any] = _unpacked(json.loads(file.metadata()[STATE]), file)
    return state


def require_layout(folder: Path, part: Part) -> None:
    """Refuse a checkpoint whose state is cut otherwise."""
    before = None
    if _file(folder, 0).is_file():
        with safe_open(_file(folder, 0), framework="pt") as first:
            before = first.metadata().get(PARTS)
    if before is None:
        raise InputError(
            f"{folder}: this checkpoint is of another version of calibsft; start over with --fresh"
        )
    if before != part.layout:
        raise InputError(
            f"{folder}: the state of this training is {before} and would now be {part.layout}; go on with the launcher that it"
            " began with, or take another folder with --out"
        )


def _file(folder: Path, part: int) -> Path:
    return folder / f"{part}-{SHARD_FILE}"


def _packed(value: Any, tensors: dict[str, Tensor]) -> Any:
    """`value` for JSON; tensors are replaced by their names in `tensors`. Keys may be numbers, so a dict is a list of pairs."""
    if isinstance(value, Tensor):
        name = str(len(tensors))
        # A copy, since tensors may share memory.
        tensors[name] = _local(value).detach().cpu().clone().contiguous()
        return {"tensor": name}
    if isinstance(value, Mapping):
        return {"pairs": [[key, _packed(inner, tensors)] for key, inner in value.items()]}
    if isinstance(value, list | tuple):
        return {"items": [_packed(inner, tensors) for inner in value]}
    return {"value": value}


def _unpacked(value: dict[str, Any], file: safe_open) -> Any:
    ((kind, content),) = value.items()
    if kind == "tensor":
        return file.get_tensor(content)  # type: ignore[no-untyped-call]
    if kind == "pairs":
        return {key: _unpacked(inner, file) for key, inner in content}
    if kind == "items":
        return [_unpacked(inner, file) for inner in content]
    return content


def _local(tensor: Tensor) -> Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def trained_part(model: nn.Module) -> dict[str, Tensor]:
    """This process's part of every trained parameter, by name."""
    return {name: _local(p) for name, p in model.named_parameters() if p.requires_grad}


@torch.no_grad()
def load_trained_part(model: nn.Module, part: Mapping[str, Tensor]) -> None:
    own = trained_part(model)
    for name, tensor in part.items():
        own[name].copy_(tensor)


def load_optimizer_part(optimizer: Optimizer, state: dict[str, Any]) -> None:
    """Load an optimiser's state whose tensors are this process's parts of tensors cut like their parameters."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    whole = {
        number: {key: _cut_like(parameters[number], value) for key, value in slots.items()}
        for number, slots in state["state"].items()
    }
    optimizer.load_state_dict({**state, "state": whole})


def _cut_like(parameter: Tensor, part: Tensor) -> Tensor:
    if not isinstance(parameter, DTensor) or part.dim() == 0:
        return part
    return DTensor.from_local(
        part.to(parameter.device),
        parameter.device_mesh,
        parameter.placements,
        shape=parameter.shape,
        stride=parameter.stride(),
    )
