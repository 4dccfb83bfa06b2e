"""How a training is spread over GPUs, as read from its command."""

import shlex
from pathlib import Path

import pytest

from calibsft.estimates.layouts import ALONE, Layout, Sharding, layout_of
from calibsft.shipped import LAUNCHERS, shipped_folders

SHIPPED = {
    "ddp": Sharding.DDP,
    "fsdp2": Sharding.FSDP2,
    "zero2": Sharding.ZERO2,
    "zero3": Sharding.ZERO3,
}
FOLDER = shipped_folders(LAUNCHERS)[0]
EIGHT = tuple("01234567")


def written(folder: Path, text: str) -> list[str]:
    path = folder / "config.yaml"
    path.write_text(text)
    return ["accelerate", "launch", "--config_file", str(path)]


def test_every_shipped_configuration_is_known() -> None:
    assert {path.stem for path in FOLDER.glob("*.yaml")} == set(SHIPPED)


@pytest.mark.parametrize("name, sharding", SHIPPED.items())
def test_the_shipped_configurations(name: str, sharding: Sharding) -> None:
    command = f"/opt/bin/accelerate launch --config_file {FOLDER / name}.yaml"
    assert layout_of(shlex.split(command)) == Layout(sharding, 8, EIGHT)


def test_options_of_the_command_replace_those_of_the_file() -> None:
    command = f"accelerate launch --config_file={FOLDER}/fsdp2.yaml --num-processes 2 --gpu_ids=3,5"
    assert layout_of(shlex.split(command)) == Layout(Sharding.FSDP2, 2, ("3", "5"))


def test_torchrun_is_data_parallel() -> None:
    assert layout_of(["torchrun", "--nproc_per_node", "4"]) == Layout(Sharding.DDP, 4, tuple("0123"))
    two = layout_of(["torchrun", "--nnodes=2", "--nproc-per-node=2"])
    assert two == Layout(Sharding.DDP, 4, ("0", "1")), "processes on both machines, GPUs of this one"


def test_one_process_shares_nothing(tmp_path: Path) -> None:
    assert layout_of([]) == layout_of(["torchrun"]) == ALONE
    assert layout_of(written(tmp_path, "{distributed_type: 'NO', num_processes: 1}")) == ALONE
    command = f"accelerate launch --config_file {FOLDER}/zero3.yaml --num_processes 1"
    assert layout_of(shlex.split(command)) == Layout(Sharding.ZERO3, 1, ("0",)), (
        "DeepSpeed still keeps copies"
    )


def test_parts_that_are_kept_off_the_gpus(tmp_path: Path) -> None:
    fsdp = "{distributed_type: FSDP, num_processes: 2, fsdp_config: {fsdp_version: 2, fsdp_offload_params: true}}"
    zero = (
        "{distributed_type: DEEPSPEED, num_processes: 2, deepspeed_config: {zero_stage: 3,"
        " offload_optimizer_device: cpu, offload_param_device: none}}"
    )
    found = [layout_of(written(tmp_path, text)) for text in (fsdp, zero)]
    assert found[0] == Layout(Sharding.FSDP2, 2, ("0", "1"), frozenset({"weights", "gradients", "optimiser"}))
    assert found[1] == Layout(Sharding.ZERO3, 2, ("0", "1"), frozenset({"master weights", "optimiser"}))


@pytest.mark.parametrize(
    "text",
    [
        "{distributed_type: FSDP, num_processes: 2, fsdp_config: {fsdp_version: 1}}",
        "{distributed_type: DEEPSPEED, num_processes: 2, deepspeed_config: {zero_stage: 1}}",
        "{distributed_type: DEEPSPEED, num_processes: 2, deepspeed_config: {deepspeed_config_file: x.json}}",
        "{distributed_type: MEGATRON_LM, num_processes: 2}",
        "{distributed_type: MULTI_GPU}",
        "{distributed_type: MULTI_GPU, num_processes: many}",
        "- a list",
        "{",
    ],
)
def test_other_configurations_are_unknown(tmp_path: Path, text: str) -> None:
    assert layout_of(written(tmp_path, text)) is None


@pytest.mark.parametrize(
    "command",
    [
        "srun python",
        "accelerate launch",
        "accelerate launch --config_file gone.yaml",
        "torchrun --nproc_per_node gpu",
    ],
)
def test_other_launchers_are_unknown(command: str) -> None:
    assert layout_of(shlex.split(command)) is None
