"""How a training is spread over GPUs, as the command that starts it says.

Reads accelerate's configuration, whose values the command's own options replace, and torchrun's options. Nothing is
known of any other launcher.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from calibsft.yaml_text import YamlProblem, parse_yaml


class Sharding(Enum):
    """What the devices of a training share."""

    ONE = "one process"
    DDP = "DDP"
    FSDP2 = "FSDP2"
    ZERO2 = "ZeRO-2"
    ZERO3 = "ZeRO-3"


@dataclass(frozen=True, slots=True)
class Layout:
    """The devices of a training.

    Attributes
    ----------
    processes
        On all machines together.
    gpus
        The numbers of this machine's GPUs, one for each of its processes.
    on_cpu
        Parts of the memory that are kept in the machine's own memory instead.
    """

    sharding: Sharding
    processes: int
    gpus: tuple[str, ...]
    on_cpu: frozenset[str] = frozenset()

    @property
    def is_cut(self) -> bool:
        """Whether weights are cut, or gathered in the machine's own memory when they are sent."""
        return self.sharding not in (Sharding.ONE, Sharding.DDP)

    def __str__(self) -> str:
        plural = "s" if self.processes > 1 else ""
        return f"{self.sharding.value}, {self.processes} GPU{plural}"


ALONE = Layout(Sharding.ONE, 1, ("0",))


def layout_of(command: Sequence[str]) -> Layout | None:
    """The layout of a training that `command` starts, empty for none; None if it is not known."""
    if not command:
        return ALONE
    read = {"accelerate": _of_accelerate, "torchrun": _of_torchrun}.get(Path(command[0]).name)
    try:
        return read(_options(command)) if read else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, YamlProblem):
        return None


def _options(words: Sequence[str]) -> dict[str, str]:
    """Options with a value, as `--name value` or `--name=value`; a hyphen is an underscore."""
    found = {}
    for word, following in zip(words, [*words[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name.startswith("--"):
            found[name[2:].replace("-", "_")] = value if equals else following
    return found


def _of_torchrun(options: Mapping[str, str]) -> Layout:
    here, machines = int(options.get("nproc_per_node", "1")), int(options.get("nnodes", "1"))
    return _parallel(Sharding.DDP, here * machines, machines, "all", frozenset())


def _of_accelerate(options: Mapping[str, str]) -> Layout | None:
    config = parse_yaml(Path(options["config_file"]).read_text(encoding="utf-8"))
    sharding, on_cpu = _sharding(config)
    if sharding is None:
        return None
    values = {"num_machines": 1, "gpu_ids": "all", **config, **options}
    processes, machines = int(values["num_processes"]), int(values["num_machines"])
    return _parallel(sharding, processes, machines, str(values["gpu_ids"]), on_cpu)


def _parallel(sharding: Sharding, processes: int, machines: int, ids: str, on_cpu: frozenset[str]) -> Layout:
    named = tuple(ids.split(",")) if ids != "all" else tuple(map(str, range(processes // machines)))
    alone = processes == 1 and sharding is Sharding.DDP
    return Layout(Sharding.ONE if alone else sharding, processes, named, on_cpu)


def _sharding(config: Mapping[str, Any]) -> tuple[Sharding | None, frozenset[str]]:
    """What accelerate's configuration shares, and which parts it keeps off the GPUs."""
    kind = config["distributed_type"]
    if kind == "FSDP":
        fsdp = config["fsdp_config"]
        off = {"weights", "gradients", "optimiser"} if fsdp.get("fsdp_offload_params") else set()
        return (Sharding.FSDP2 if int(fsdp.get("fsdp_version", 1)) == 2 else None), frozenset(off)
    if kind == "DEEPSPEED":
        zero = config["deepspeed_config"]
        places = {
            "offload_optimizer_device": {"master weights", "optimiser"},
            "offload_param_device": {"weights"},
        }
        off = {part for key, parts in places.items() if zero.get(key, "none") != "none" for part in parts}
        return {2: Sharding.ZERO2, 3: Sharding.ZERO3}.get(int(zero["zero_stage"])), frozenset(off)
    return {"MULTI_GPU": Sharding.DDP, "NO": Sharding.ONE}.get(kind), frozenset()
