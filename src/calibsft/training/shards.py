"""The state of a training that FSDP or DeepSpeed has cut: each process saves and loads its own part.

A part is one safetensors file; what is no tensor is JSON in its header. Only the trained parameters are in it, since the
others are those of the starting model. Does not gather anything: that is `training.final`.
"""

import json
from collections.abc import Mapping
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
STATE, PROCESSES = "state", "processes"


def write_shard(folder: Path, process: int, processes: int, state: Mapping[str, Any]) -> None:
    """Write one process's part: dicts and lists of tensors and plain values."""
    tensors: dict[str, Tensor] = {}
    header = {STATE: json.dumps(_packed(state, tensors)), PROCESSES: str(processes)}
    save_file(tensors, folder / f"{process}-{SHARD_FILE}", metadata=header)


def read_shard(folder: Path, process: int, processes: int) -> dict[str, Any]:
    """The inverse of `write_shard`; refuses a checkpoint of another number of processes."""
    if not (folder / f"0-{SHARD_FILE}").is_file():
        raise InputError(
            f"{folder}: this checkpoint is of another version of calibsft; start over with --fresh"
        )
    with safe_open(folder / f"0-{SHARD_FILE}", framework="pt") as first:
        before = int(first.metadata()[PROCESSES])
    if before != processes:
        raise other_number(before, processes)
    with safe_open(folder / f"{process}-{SHARD_FILE}", framework="pt") as file:
        state: dict[str, Any] = _unpacked(json.loads(file.metadata()[STATE]), file)
    return state


def other_number(before: int, now: int) -> InputError:
    return InputError(
        f"this training began with {before} processes and now has {now}; go on with as many as before, or take another folder"
        " with --out"
    )


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
