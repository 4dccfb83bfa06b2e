"""For tests of trainings over two processes: how they are started, what they are fine-tuned on, and whether two are equal."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
import yaml
from safetensors.torch import load_file

from calibsft.artifacts import write_parquet

ROOT = Path(__file__).parents[2]
LAUNCHERS = ROOT / "launchers"
PROCESS = ROOT / "tests/support/sharded_process.py"
# DeepSpeed lives in an environment of its own: scripts/deepspeed-env
ZERO = ROOT / ".venv-deepspeed/bin/python"
PLACEMENT = {"ddp": "whole", "fsdp2": "cut by FSDP", "zero2": "cut by ZeRO-2", "zero3": "cut by ZeRO-3"}
WAYS = ["fsdp2", *(pytest.param(way, marks=pytest.mark.slow) for way in ("ddp", "zero2", "zero3"))]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def two_processes() -> list[str]:
    return ["-m", "torch.distributed.run", "--nproc_per_node=2", f"--master_port={free_port()}"]


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
    started = [python, "-m", "accelerate.commands.launch", "--config_file", str(path)]
    return [*started, f"--main_process_port={free_port()}", str(PROCESS), str(path)]


def environment() -> dict[str, str]:
    return os.environ | {
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "DS_ACCELERATOR": "cpu",
        "PYTHONPATH": str(ROOT / "src"),
    }


def run_launched(way: str, words: list[str], folder: Path) -> str:
    """Run a training to its end; returns what it said. Sees to it that the model was cut as `way` says."""
    done = subprocess.run(
        [*launcher(way, folder), *words],
        env=environment(), capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(f"the model is {PLACEMENT.get(way)}") == (0 if way == "one" else 2)
    return done.stderr


def second_processes(out: Path) -> list[int]:
    """The second of the processes that train in `out`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            variables, command = path.read_bytes(), (path.parent / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"\0RANK=1\0" in variables and str(out).encode() in command:
            found.append(int(path.parent.name))
    return found


def kill_second_process(command: list[str], out: Path) -> None:
    """Start a training, kill its second process after two updates were saved, and see that the others end too."""
    with subprocess.Popen(command, env=environment(), stderr=subprocess.DEVNULL) as started:
        while not (out / "checkpoints" / "checkpoint-2" / "complete").is_file():
            assert started.poll() is None
            time.sleep(0.005)
        for number in second_processes(out):
            os.kill(number, signal.SIGKILL)
        started.wait(120)
    assert not (out / "model").exists()


def journal(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def assert_same_training(found: Path, expected: Path, *figures: str) -> None:
    """The same steps, the same `figures` in each, the same files and the same weights."""
    new, old = journal(found), journal(expected)
    assert [row["step"] for row in new] == [row["step"] for row in old]
    for name in figures:
        theirs = pytest.approx([row[name] for row in old], rel=1e-4, abs=1e-5)
        assert [row[name] for row in new] == theirs, name
    weights, before = (load_file(out / "model" / "model.safetensors") for out in (found, expected))
    assert weights.keys() == before.keys()
    for name, tensor in weights.items():
        assert torch.allclose(tensor, before[name], rtol=0, atol=1e-5), name
    files = [{path.name for path in (out / "model").iterdir()} for out in (found, expected)]
    assert files[0] == files[1]
    assert not (found / "checkpoints").exists()


def write_training_set(path: Path) -> Path:
    """Correct responses are so few that in most steps a process has none, and a mean per process differs from the global one."""
    rows = [
        {
            "question_id": str(i), "sample": 0, "question": f"{10 + i}*11", "correct": i % 20 == 0,
            "response": f"<think>{'7' * (i % 7)}</think><answer>{i:04d}</answer><confidence>0.{10 + i}</confidence>",
        }
        for i in range(40)
    ]  # fmt: skip
    write_parquet(path, pl.DataFrame(rows))
    return path
