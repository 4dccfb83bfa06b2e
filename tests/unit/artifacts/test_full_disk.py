"""No room left: one sentence that names the place, exit code 2, and the same command goes on once there is room.

A limit on the size of files stands for the full disk: it is refused at the same place, by every library alike.
"""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest

from calibsft.artifacts import write_parquet
from calibsft.errors import InputError
from command import Command

RESPONSE = "<think>1*1</think><answer>0001</answer><confidence>0.50</confidence>"
CALIBSFT = [sys.executable, "-m", "calibsft"]


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Let no file grow beyond `size` bytes."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


def refused(calibsft: Command, size: int, *words: object) -> str:
    with room_for(size):
        code, _, said = calibsft(*words)
    assert code == 2, said
    sentence = said.splitlines()[-1]
    assert "unexpected" not in said and "cannot be written (File too large); free some space" in sentence
    return sentence.removeprefix("calibsft: ")


def questions() -> str:
    rows = "".join(f"{a},{a}*10,{a * 10:04d},exact\n" for a in range(10, 30))
    Path("q.csv").write_text("question_id,question,gold,kind\n" + rows)
    return "q.csv"


def test_rollouts(calibsft: Command, random_checkpoint: Path) -> None:
    command = ("rollout", "--model", random_checkpoint, "--questions", questions(), "--out", "o", "-n", 2)
    command = (*command, "--max-new-tokens", 8, "--device", "cpu", "--shard-questions", 10)
    assert refused(calibsft, 1500, *command).startswith("o/")
    assert calibsft(*command)[0] == 0


def test_fine_tuning(calibsft: Command, random_checkpoint: Path) -> None:
    rows = [
        {"question_id": name, "question": "1*1", "response": RESPONSE, "correct": right}
        for name in ("a", "b")
        for right in (True, True, False)
    ]
    pl.DataFrame(rows).write_parquet("pool.parquet")
    assert calibsft("build", "pool.parquet", "--out", "data")[0] == 0
    command = ["sft", "--model", random_checkpoint, "--data", "data", "--out", "o", "--device", "cpu"]
    for setting in ("steps=2", "save_every=1", "batch_size=2", "micro_batch_size=2", "warmup_steps=0"):
        command += ["--set", setting]
    for size in (10_000, 100_000):  # what Python writes, and what safetensors does
        assert refused(calibsft, size, *command).startswith("o")
    code, out, said = calibsft(*command)
    assert (code, out) == (0, "checkpoint: o/model\n"), said


def test_a_library_that_wraps_the_refusal(tmp_path: Path) -> None:
    with room_for(10), pytest.raises(InputError, match=r"rows.parquet: cannot be written \(File too large\)"):
        write_parquet(tmp_path / "rows.parquet", pl.DataFrame({"a": [1, 2, 3]}))
    assert list(tmp_path.iterdir()) == []


def test_a_refusal_is_found_behind_other_errors_but_not_where_it_was_told() -> None:
    from calibsft.errors import system_refusal

    told = InputError("told")
    told.__cause__ = OSError(28, "No space left on device")
    wrapped = ValueError("failed")
    wrapped.__cause__ = RuntimeError("I/O error: No space left on device (os error 28)")
    found = system_refusal(wrapped)
    assert found is not None and found.errno == 28
    assert system_refusal(told) is None and system_refusal(ValueError("a bug")) is None


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("words", [("ls",), ("--version",), ("ls", "--help")])
def test_standard_output(words: tuple[str, ...]) -> None:
    with open("/dev/full", "w") as full:
        found = subprocess.run([*CALIBSFT, *words], stdout=full, stderr=subprocess.PIPE, text=True)
    assert found.returncode == 2
    assert found.stderr == (
        "calibsft: the output: cannot be written (No space left on device); free some space and run the same command again\n"
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_standard_error_keeps_the_exit_code() -> None:
    with open("/dev/full", "w") as full:
        found = subprocess.run([*CALIBSFT, "score", "none.csv"], stdout=full, stderr=full)
    assert found.returncode == 2


def test_a_closed_output_is_no_failure() -> None:
    found = subprocess.run([*CALIBSFT, "ls"], stderr=subprocess.PIPE, preexec_fn=lambda: os.close(1))
    assert (found.returncode, found.stderr) == (0, b"")
