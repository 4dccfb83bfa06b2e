"""For tests of trainings over two processes: how they are started, and what they are fine-tuned on."""

import socket
from pathlib import Path

import polars as pl

from calibsft.artifacts import write_parquet


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def two_processes() -> list[str]:
    return ["-m", "torch.distributed.run", "--nproc_per_node=2", f"--master_port={free_port()}"]


def write_training_set(path: Path) -> Path:
    """Correct responses are unevenly spread, so a mean per process would differ from the global mean."""
    rows = [
        {
            "question_id": str(i), "sample": 0, "question": f"{10 + i}*11", "correct": i % 5 == 0,
            "response": f"<think>{'7' * (i % 7)}</think><answer>{i:04d}</answer><confidence>0.{10 + i}</confidence>",
        }
        for i in range(40)
    ]  # fmt: skip
    write_parquet(path, pl.DataFrame(rows))
    return path
