"""Fine-tuning over two processes is fine-tuning over one: same losses, one folder, one voice."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from calibsft.artifacts import write_parquet

SETTINGS = (
    "steps=5",
    "batch_size=16",
    "micro_batch_size=4",
    "learning_rate=1e-3",
    "max_tokens=64",
    "save_every=2",
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def fine_tune(launcher: list[str], checkpoint: Path, data: Path, out: Path) -> tuple[list[float], str]:
    changes = [word for setting in SETTINGS for word in ("--set", setting)]
    command = [
        sys.executable,
        *launcher,
        "-m",
        "calibsft",
        "sft",
        "--model",
        str(checkpoint),
        "--data",
        str(data),
    ]
    done = subprocess.run(
        [*command, "--out", str(out), "--device", "cpu", *changes],
        env=os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [
        json.loads(line)["loss"] for line in (out / "metrics.jsonl").read_text().splitlines()
    ], done.stdout


def test_two_processes_train_like_one(random_checkpoint: Path, tmp_path: Path) -> None:
    # Correct responses are unevenly spread, so a mean per process would differ from the global mean.
    rows = [
        {
            "question_id": str(i), "sample": 0, "question": f"{10 + i}*11", "correct": i % 5 == 0,
            "response": f"<think>{'7' * (i % 7)}</think><answer>{i:04d}</answer><confidence>0.{10 + i}</confidence>",
        }
        for i in range(40)
    ]  # fmt: skip
    write_parquet(tmp_path / "sft.parquet", pl.DataFrame(rows))
    one, _ = fine_tune([], random_checkpoint, tmp_path / "sft.parquet", tmp_path / "one")
    launcher = ["-m", "torch.distributed.run", "--nproc_per_node=2", f"--master_port={free_port()}"]
    two, stdout = fine_tune(launcher, random_checkpoint, tmp_path / "sft.parquet", tmp_path / "two")
    assert two == pytest.approx(one, rel=1e-5)
    assert len(two) == 5
    assert stdout.count("checkpoint:") == 1
    manifests = [json.loads((tmp_path / name / "manifest.json").read_text()) for name in ("one", "two")]
    assert manifests[0]["files"].keys() == manifests[1]["files"].keys()
