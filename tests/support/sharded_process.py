"""For tests to start under torchrun: calibsft with a model that is really cut by FSDP, which accelerate refuses to do on a CPU.

Its own configuration falls back to plain DDP there without a word, so this one says how the parameters lie:
`python sharded_process.py VERSION STATE_DICT_TYPE sft …`. With STOP_AT=3 in the environment it dies after three steps.
"""

import os
import sys
from typing import Any

from accelerate.state import AcceleratorState, PartialState
from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin
from torch.distributed.tensor import DTensor

from calibsft.cli import main
from calibsft.sft.trainer import CalibSftTrainer


def shard_on_cpu(version: int, state_dict_type: str) -> None:
    """Let accelerate take the devices here for such that FSDP may use."""
    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=version,
        state_dict_type=state_dict_type,
        auto_wrap_policy="transformer_based_wrap",
        cpu_ram_efficient_loading=False,
    )
    begin = AcceleratorState.__init__

    def init(self: AcceleratorState, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        self.distributed_type, self.fsdp_plugin = DistributedType.FSDP, plugin
        PartialState._shared_state["distributed_type"] = DistributedType.FSDP

    AcceleratorState.__init__ = init


def report_placement(stop_at: int) -> None:
    """Say once whether the model that is trained is cut, and die in step `stop_at` + 1."""
    compute, said = CalibSftTrainer.compute_loss, []

    def compute_loss(self: CalibSftTrainer, model: Any, *args: Any, **kwargs: Any) -> Any:
        if self.state.global_step >= stop_at:
            os._exit(9)
        if not said:
            cut = all(isinstance(parameter, DTensor) for parameter in model.parameters())
            said.append(print(f"parameters are cut: {cut}", file=sys.stderr))
        return compute(self, model, *args, **kwargs)

    CalibSftTrainer.compute_loss = compute_loss


if __name__ == "__main__":
    shard_on_cpu(int(sys.argv.pop(1)), sys.argv.pop(1))
    report_placement(int(os.environ.get("STOP_AT", sys.maxsize)))
    main()
