"""A training over two processes, whole or cut by FSDP or ZeRO, is that of one process: losses, gradients, weights, resuming."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import yaml
from safetensors.torch import load_file

from calibsft.errors import InputError
from calibsft.training.shards import read_shard, write_shard
from launching import free_port, two_processes, write_training_set

ROOT = Path(__file__).parents[2]
LAUNCHERS = ROOT / "launchers"
PROCESS = ROOT / "tests/support/sharded_process.py"
# DeepSpeed lives in an environment of its own: scripts/deepspeed-env
ZERO = ROOT / ".venv-deepspeed/bin/python"
SETTINGS = (
    "steps=6", "batch_size=16", "micro_batch_size=4", "learning_rate=1e-3", "max_tokens=64", "save_every=2",
    "warmup_steps=0",
)  # fmt: skip
LORA = ("lora.rank=4", "learning_rate=1e-2")
KINDS = {"weights": (), "adapters": LORA}
LONG = "steps=20"


PLACEMENT = {"ddp": "whole", "fsdp2": "cut by FSDP", "zero2": "cut by ZeRO-2", "zero3": "cut by ZeRO-3"}


def launcher(way: str, folder: Path, **changes: bool) -> list[str]:
    """The words that start a training: with a shipped configuration in two processes on CPUs, or in this way alone."""
    if way == "one":
        return [sys.executable, "-m", "calibsft"]
    config = yaml.safe_load((LAUNCHERS / f"{way}.yaml").read_text())
    config |= {"num_processes": 2, "mixed_precision": "no", "use_cpu": True}
    config.get("deepspeed_config", {}).update(changes)
    folder.mkdir(exist_ok=True)
    path = folder / f"{way}.yaml"
    path.write_text(yaml.safe_dump(config))
    python = sys.executable
    if way.startswith("zero"):
        python = str(ZERO)
        if not ZERO.is_file():
            pytest.skip("DeepSpeed is not installed; make its environment with scripts/deepspeed-env")
    if way == "fsdp2":  # which accelerate would not start on CPUs
        return [python, *two_processes(), str(PROCESS), str(path)]
    port = f"--main_process_port={free_port()}"
    return [
        python,
        "-m",
        "accelerate.commands.launch",
        "--config_file",
        str(path),
        port,
        str(PROCESS),
        str(path),
    ]


WAYS = ["fsdp2", *(pytest.param(way, marks=pytest.mark.slow) for way in ("ddp", "zero2", "zero3"))]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_training_set(tmp_path_factory.mktemp("sharded") / "sft.parquet")


def words(start: Path, data: Path, out: Path, *settings: str) -> list[str]:
    paths = ["--model", str(start), "--data", str(data), "--out", str(out)]
    return ["sft", *paths, "--device", "cpu", *(f"--set={setting}" for setting in (*SETTINGS, *settings))]


def environment() -> dict[str, str]:
    return os.environ | {
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "DS_ACCELERATOR": "cpu",
        "PYTHONPATH": str(ROOT / "src"),
    }


def fine_tune(way: str, start: Path, data: Path, out: Path, *settings: str) -> str:
    done = subprocess.run(
        [*launcher(way, out.parent), *words(start, data, out, *settings)],
        env=environment(), capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(f"the model is {PLACEMENT.get(way)}") == (0 if way == "one" else 2)
    return done.stderr


@pytest.fixture(scope="module")
def alone(random_checkpoint: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The training of one process, by kind."""
    folder = tmp_path_factory.mktemp("alone")
    kinds = {**KINDS, LONG: (LONG,)}
    for kind, settings in kinds.items():
        fine_tune("one", random_checkpoint, data, folder / kind, *settings)
    return {kind: folder / kind for kind in kinds}


def journal(out: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def assert_same_training(found: Path, expected: Path) -> None:
    new, old = journal(found), journal(expected)
    assert [row["step"] for row in new] == [row["step"] for row in old]
    for name in ("loss", "loss_reasoning", "loss_confidence", "grad_norm"):
        assert [row[name] for row in new] == pytest.approx([row[name] for row in old], rel=1e-4, abs=1e-5), (
            name
        )
    weights, theirs = (load_file(out / "model" / "model.safetensors") for out in (found, expected))
    assert weights.keys() == theirs.keys()
    for name, tensor in weights.items():
        assert torch.allclose(tensor, theirs[name], rtol=0, atol=1e-5), name
    files = [{path.name for path in (out / "model").iterdir()} for out in (found, expected)]
    assert files[0] == files[1]
    assert not (found / "checkpoints").exists()


@pytest.mark.parametrize("kind", ["weights", pytest.param("adapters", marks=pytest.mark.slow)])
@pytest.mark.parametrize("way", WAYS)
def test_two_processes_train_like_one(
    way: str, kind: str, random_checkpoint: Path, data: Path, alone: dict[str, Path], tmp_path: Path
) -> None:
    fine_tune(way, random_checkpoint, data, tmp_path / "out", *KINDS[kind])
    assert_same_training(tmp_path / "out", alone[kind])


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 2])
def test_more_accumulation_steps_change_nothing(
    rows: int, random_checkpoint: Path, data: Path, alone: dict[str, Path], tmp_path: Path
) -> None:
    # One process takes 4 steps of 4 rows; these are 8 and 4 steps of each of two.
    fine_tune("ddp", random_checkpoint, data, tmp_path / "out", f"micro_batch_size={rows}")
    assert_same_training(tmp_path / "out", alone["weights"])


def workers(out: Path) -> list[int]:
    """The processes that train in `out`, without their launcher."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            variables, command = path.read_bytes(), (path.parent / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"\0RANK=1\0" in variables and str(out).encode() in command:
            found.append(int(path.parent.name))
    return found


@pytest.mark.parametrize("way", WAYS)
def test_a_killed_process_ends_the_training_and_a_rerun_ends_as_if_nothing_had_been(
    way: str, random_checkpoint: Path, data: Path, alone: dict[str, Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    command = [*launcher(way, tmp_path), *words(random_checkpoint, data, out, LONG)]
    with subprocess.Popen(command, env=environment(), stderr=subprocess.DEVNULL) as started:
        while not (out / "checkpoints" / "checkpoint-2" / "complete").is_file():
            assert started.poll() is None
            time.sleep(0.005)
        for number in workers(out):
            os.kill(number, signal.SIGKILL)
        started.wait(120)
    assert not (out / "model").exists()
    files = {path.suffix for path in (out / "checkpoints").rglob("*") if path.is_file()}
    assert files <= {"", ".json", ".jinja", ".safetensors"}, "no pickle among them"
    said = fine_tune(way, random_checkpoint, data, out, LONG)
    assert "of 20 steps were done before" in said
    assert_same_training(out, alone[LONG])


def test_a_cut_training_goes_on_only_with_as_many_processes(tmp_path: Path) -> None:
    write_shard(tmp_path, 0, 2, {"a": torch.ones(2), "b": {3: [1.5, None]}})
    found = read_shard(tmp_path, 0, 2)
    assert found["b"] == {3: [1.5, None]} and torch.equal(found["a"], torch.ones(2))
    with pytest.raises(InputError, match="began with 2 processes and now has 3; go on with as many"):
        read_shard(tmp_path, 0, 3)


def test_rl_of_a_model_that_fsdp_has_cut_is_refused(random_checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "questions.jsonl").write_text('{"question_id": 1, "question": "1*1", "gold": "1"}\n')
    paths = ["--model", random_checkpoint, "--data", tmp_path / "questions.jsonl", "--out", tmp_path / "out"]
    done = subprocess.run(
        [*launcher("fsdp2", tmp_path), "rl", "--method", "rlcr", *map(str, paths)]
        + ["--device", "cpu", "--set", "questions=4"],
        env=environment(), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode != 0 and "rl cannot sample from a model that FSDP has cut" in done.stderr


@pytest.mark.slow
def test_zero_3_without_gathering_is_refused_before_the_first_step(
    random_checkpoint: Path, data: Path, tmp_path: Path
) -> None:
    command = launcher("zero3", tmp_path, zero3_save_16bit_model=False)
    done = subprocess.run(
        [*command, *words(random_checkpoint, data, tmp_path / "out")],
        env=environment(), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode != 0 and "set zero3_save_16bit_model: true" in done.stderr
    assert not (tmp_path / "out" / "metrics.jsonl").exists()
