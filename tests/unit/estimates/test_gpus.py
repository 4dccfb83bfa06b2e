"""What stages put on GPUs, and the refusal of what cannot fit."""

from pathlib import Path

import pytest

from calibsft.engines.settings import Occupied
from calibsft.errors import InputError
from calibsft.estimates import gpus
from calibsft.estimates.counts import counts_of
from calibsft.estimates.gpus import GB, Load, gpu_memory, loads_of, require_fit
from calibsft.estimates.sampling_memory import engine_parts, server_parts, server_share
from calibsft.estimates.shapes import RECORDED, Shape
from calibsft.pipeline import plan
from calibsft.recipe import load_recipe

QWEN = RECORDED["Qwen/Qwen3-8B"]
# 20 numbers are kept of each token: 2 layers x keys and values x 5.
SMALL = Shape(1000, 2, 10, 2, 1, 5, 20, 30, tied=True)
MEMORY = 80.0 * GB


def loads(
    name: str, *overrides: str, machine: str | None = "8-gpus", memory: float | None = MEMORY
) -> list[Load] | None:
    recipe = load_recipe("qwen3-8b/methods", list(overrides), [machine] if machine else [])
    stages = {stage.name: stage for stage in plan(recipe, Path("run"))}
    return loads_of(stages[name], counts_of(stages[name], stages), QWEN, memory)


def placed(name: str, *overrides: str, machine: str | None = "8-gpus") -> dict[str, set[str]]:
    found = loads(name, *overrides, machine=machine)
    assert found is not None
    return {",".join(load.gpus): set(load.parts) for load in found}


STATE = {"weights", "gradients", "optimiser", "copies", "activations", "logits"}


def test_training_and_servers_have_gpus_of_their_own_on_eight() -> None:
    assert placed("sft") == {"0,1,2,3,4,5,6,7": STATE}
    assert placed("rlcr") == {"0,1,2,3": STATE, "4,5,6,7": {"server"}}
    assert placed("rlvr") == {"0,1,2,3": STATE | {"reference"}, "4,5,6,7": {"server"}}


def test_training_and_server_share_one_gpu() -> None:
    assert placed("rlvr", machine="one-80gb-gpu") == {"0": STATE | {"server"}}, "adapters need no reference"


def test_the_judge_is_on_the_first_gpu_unless_it_is_served() -> None:
    engine = {"weights", "keys and values"}
    assert placed("eval-base") == {"0": engine | {"judge's weights"}, "1,2,3,4,5,6,7": engine}
    served = placed("eval-base", "judge.url=http://localhost:1/v1")
    assert served == {"0,1,2,3,4,5,6,7": engine}


def test_the_trainer_samples_unless_servers_do() -> None:
    assert placed("rlcr", machine=None) == {"0": STATE | {"sampling"}}


def test_a_copy_is_sent_from_the_first_gpu_where_weights_are_whole() -> None:
    whole = "launch.rl=accelerate launch --config_file ddp.yaml --num_processes 2"
    assert placed("rlcr", whole)["0"] == STATE | {"copy for servers"} and placed("rlcr", whole)["1"] == STATE
    assert "copy for servers" in placed("rlcr", "rl.servers.weights=nccl")["0"]
    assert "copy for servers" not in placed("rlcr", whole, "rl.lora.rank=2")["0,1"]


def test_several_servers_on_one_gpu_add_up() -> None:
    (training, servers) = loads("rlcr", "launch.servers.gpus=[4, 4]") or []
    assert servers.gpus == ("4",) and servers.parts["server"] == pytest.approx(2 * 0.9 * MEMORY)
    assert training.layout is not None and servers.layout is None


def test_what_is_elsewhere_or_needs_no_gpu_takes_none() -> None:
    assert loads("verify") == loads("build") == loads("report") == []
    served = "engine={name: openai, urls: ['http://localhost:1/v1']}"
    assert loads("rollout", served) == []


def test_an_unknown_launcher_is_unknown() -> None:
    assert loads("sft", "launch.sft=srun python") is None


def test_an_engine_takes_what_it_needs_or_its_share() -> None:
    # bfloat16 weights; 3 rows of 7 tokens with 20 numbers each.
    assert engine_parts(SMALL, Occupied(1, None, 3), "auto", 7, None) == {
        "weights": 2000,
        "keys and values": 840,
    }
    assert engine_parts(SMALL, Occupied(1, None, 3), "float32", 7, 1e9) == {
        "weights": 4000,
        "keys and values": 1680,
    }
    # Half of 10,000 bytes on each of two GPUs: 1,000 for weights and the rest for keys and values.
    assert engine_parts(SMALL, Occupied(2, 0.5, None), "auto", 7, 1e4) == {
        "weights": 1000,
        "keys and values": 4000,
    }
    # Too small a share holds not even one row of 7 x 20 numbers.
    assert engine_parts(SMALL, Occupied(1, 0.1, None), "auto", 7, 1e4) == {
        "weights": 2000,
        "keys and values": 280,
    }


def test_a_server_takes_vllm_s_share_or_the_one_in_its_command() -> None:
    command = ["calibsft", "policy-server", "--vllm", "gpu-memory-utilization=0.35"]
    assert server_share(command) == 0.35
    assert server_share(command[:2]) == server_share([*command[:3], "gpu-memory-utilization=x"]) == 0.9
    assert server_parts(SMALL, 1, command, 7, 1e5) == {"server": pytest.approx(35_000)}
    assert server_parts(SMALL, 1, command, 7, None) == {"server": 2000 + 280}


def test_both_machines_hold_every_stage() -> None:
    for machine in ("8-gpus", "one-80gb-gpu"):
        recipe = load_recipe("qwen3-8b/methods", [], [machine])
        for stage in plan(recipe, Path("run")):
            found = loads(stage.name, machine=machine)
            assert found is not None
            require_fit(found, MEMORY)


REFUSED = [
    # Sixteen bytes and more for each of 8.19 billion parameters.
    (
        "sft",
        ["sft.lora=null", "sft.max_tokens=100"],
        "optimiser (65.5 GB); cut the training over more GPUs (launch.sft), or train adapters (sft.lora)",
    ),
    # 16 rows x 8,192 tokens x (36 layers x 16,384 bytes + 241,664 bytes of one).
    (
        "sft",
        ["sft.micro_batch_size=16"],
        "activations (109.0 GB); lower sft.micro_batch_size, or set sft.gradient_checkpointing",
    ),
    (
        "rlcr",
        ["launch.servers.command=calibsft policy-server"],
        "server (72.0 GB); give the servers other GPUs (launch.servers.gpus) or a smaller share of this one",
    ),
    ("eval-base", ["engine.gpu_memory=0.9"], "keys and values (55.6 GB); take an engine"),
]


@pytest.mark.parametrize("name, overrides, said", REFUSED)
def test_what_does_not_fit_is_refused_with_its_largest_part_and_a_remedy(
    name: str, overrides: list[str], said: str
) -> None:
    found = loads(name, *overrides, machine="one-80gb-gpu")
    with pytest.raises(InputError) as caught:
        require_fit(found or [], MEMORY)
    sentence = str(caught.value)
    assert sentence.startswith(f"{name} needs up to ") and "\n" not in sentence
    assert f" GB of GPU 0, which has 80.0 GB, most of it for {said}" in sentence


def test_every_part_has_a_remedy() -> None:
    parts = {part for machine in ("8-gpus", "one-80gb-gpu", None) for part in _all_parts(machine)}
    trained = parts - {"keys and values"}
    assert trained <= set(gpus.REMEDIES)


def _all_parts(machine: str | None) -> set[str]:
    names = ("sft", "rlvr", "rlcr", "eval-base", "rollout")
    return {part for name in names for load in loads(name, machine=machine) or [] for part in load.parts}


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A driver's program that says what stands in the file `said`."""
    program = tmp_path / "nvidia-smi"
    program.write_text(f'#!/bin/sh\ncat "{tmp_path}/said"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    gpus._own_memory.cache_clear()
    return tmp_path / "said"


def test_the_size_of_a_gpu_is_the_setting_or_that_of_the_first_one_here(driver: Path) -> None:
    driver.write_text("81559\n40960\n")
    assert gpu_memory(None) == 81_559 * 2**20
    assert gpu_memory(24) == 24 * GB


@pytest.mark.parametrize("said", ["", "[N/A]\n", "No devices were found\n"])
def test_a_driver_without_gpus_says_nothing(driver: Path, said: str) -> None:
    driver.write_text(said)
    assert gpu_memory(None) is None


def test_a_driver_that_does_not_answer_says_nothing(driver: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver.with_name("nvidia-smi").write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(gpus, "PATIENCE", 0.2)
    assert gpu_memory(None) is None


def test_without_a_driver_the_size_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    gpus._own_memory.cache_clear()
    assert gpu_memory(None) is None
