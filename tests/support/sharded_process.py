"""For tests to start by a launcher: calibsft that says how its model is cut, and cuts it by FSDP on a CPU too.

On a CPU accelerate falls back to plain DDP without a word. `python sharded_process.py CONFIGURATION.yaml sft …` takes the
settings of FSDP from an accelerate configuration.
"""

import sys
from pathlib import Path
from typing import Any

import yaml
from accelerate.state import AcceleratorState, PartialState
from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin
from torch.distributed.tensor import DTensor

from calibsft.cli import main
from calibsft.rl.trainer import RlTrainer
from calibsft.sft.trainer import CalibSftTrainer
from calibsft.training.checkpoints import PickleFreeTrainer


def shard_on_cpu(configuration: Path) -> None:
    """Let accelerate take the devices here for such that FSDP may use, if the configuration asks for it."""
    fsdp = yaml.safe_load(configuration.read_text()).get("fsdp_config")
    if fsdp is None:
        return
    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=fsdp["fsdp_version"],
        state_dict_type=fsdp["fsdp_state_dict_type"],
        auto_wrap_policy=fsdp["fsdp_auto_wrap_policy"].lower(),
        reshard_after_forward=fsdp["fsdp_reshard_after_forward"],
        cpu_ram_efficient_loading=fsdp["fsdp_cpu_ram_efficient_loading"],
    )
    begin = AcceleratorState.__init__

    def init(self: AcceleratorState, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        self.distributed_type, self.fsdp_plugin = DistributedType.FSDP, plugin
        PartialState._shared_state["distributed_type"] = DistributedType.FSDP

    AcceleratorState.__init__ = init


def placement(trainer: PickleFreeTrainer, model: Any) -> str:
    if trainer.is_deepspeed_enabled:
        return f"cut by ZeRO-{trainer.deepspeed.zero_optimization_stage()}"
    cut = all(isinstance(parameter, DTensor) for parameter in model.parameters())
    return "cut by FSDP" if cut else "whole"


def report_placement(kind: type[PickleFreeTrainer]) -> None:
    """Let trainers of this kind say once how the model that they train is cut."""
    compute, said = kind.compute_loss, []

    def compute_loss(self: PickleFreeTrainer, model: Any, *args: Any, **kwargs: Any) -> Any:
        if not said:
            said.append(print(f"the model is {placement(self, model)}", file=sys.stderr))
        return compute(self, model, *args, **kwargs)

    kind.compute_loss = compute_loss


if __name__ == "__main__":
    shard_on_cpu(Path(sys.argv.pop(1)))
    for kind in (CalibSftTrainer, RlTrainer):
        report_placement(kind)
    main()
