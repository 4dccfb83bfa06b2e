"""One command at a time in a folder, and no lock that outlives the process that held it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent

import pytest

from calibsft.artifacts import StageFolder, locked
from calibsft.errors import InputError
from command_process import calibsft, ended, finish, under_way

ROWS = [
    {
        "question_id": f"q{i}", "question": f"{i}*11", "gold": f"{i * 11:04d}", "kind": "exact", "correct": i % 2 == 0,
        "response": f"<think>1</think><answer>{i * 11:04d}</answer><confidence>0.{i}</confidence>",
    }
    for i in range(10, 40)
]  # fmt: skip


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def _twice(rows: Path) -> Path:
    """The same questions with two responses each."""
    path = rows.with_name("twice.jsonl")
    path.write_text(rows.read_text() * 2)
    return path


def names_process(said: str, pid: int) -> bool:
    return re.search(rf"process {pid} on \S+ has worked in it since \d{{4}}-\d\d-\d\d", said) is not None


def test_a_second_equal_command_is_refused_and_a_killed_one_leaves_no_lock(
    random_checkpoint: Path, rows: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    command = calibsft(
        "rollout", "--model", random_checkpoint, "--questions", rows, "--out", out, "-n", 4, "--max-new-tokens", 30,
        "--shard-questions", 2, "--max-rows", 16, "--device", "cpu",
    )  # fmt: skip
    with under_way(command, lambda: bool(list(out.glob("part-*.parquet")))) as first:
        first.send_signal(signal.SIGSTOP)  # it holds the folder for as long as the second one needs
        before = sorted(path.name for path in out.iterdir())
        code, said = ended(command)
        assert (code, names_process(said, first.pid)) == (2, True), said
        assert "; wait until it has ended, or end it, and run the same command again" in said
        assert sorted(path.name for path in out.iterdir()) == before
        first.send_signal(signal.SIGKILL)
        assert first.wait() == -signal.SIGKILL
    assert "were done before" in finish(command)
    assert (out / "manifest.json").is_file()


@pytest.mark.parametrize("command", ["rollout", "verify", "build", "sft", "rl", "eval"])
def test_every_single_command_respects_the_lock(
    random_checkpoint: Path, rows: Path, tmp_path: Path, command: str
) -> None:
    model = ("--model", random_checkpoint)
    words: dict[str, tuple[object, ...]] = {
        "rollout": (*model, "--questions", rows),
        "verify": (rows,),
        "build": (_twice(rows),),
        "sft": (*model, "--data", rows),
        "rl": (*model, "--method", "rlcr", "--data", rows),
        "eval": (*model, "--benchmarks", "cross"),
    }
    out = tmp_path / "out"
    with locked(out):
        code, said = ended(calibsft(command, *words[command], "--out", out))
        assert [path.name for path in out.iterdir()] == [".lock"]
    assert (code, names_process(said, os.getpid())) == (2, True), said


def hold(folder: Path, then: str) -> subprocess.Popen[str]:
    """A process that has taken the lock of `folder` and says "held" before it does what `then` says."""
    program = f"""
        import os, signal, sys, time
        from pathlib import Path
        from calibsft.artifacts import locked
        with locked(Path(sys.argv[1])):
            {then}
        """
    words = [sys.executable, "-c", dedent(program), str(folder)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def test_a_forked_child_that_outlives_its_killed_parent_holds_no_lock(tmp_path: Path) -> None:
    holder = hold(tmp_path, "os.fork(); os.write(1, b'%d\\n' % os.getpid()); time.sleep(600)")
    assert holder.stdout is not None
    # Both have returned from the fork, which is when the child gives up its copy of the lock.
    (child,) = {int(holder.stdout.readline()) for _ in range(2)} - {holder.pid}
    try:
        with pytest.raises(InputError, match=f"process {holder.pid} on"), locked(tmp_path):
            pass
        holder.send_signal(signal.SIGKILL)
        assert holder.wait() == -signal.SIGKILL
        os.kill(child, 0)  # it is still there
        with locked(tmp_path):
            pass
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_patient_command_waits_for_a_process_that_is_about_to_end(tmp_path: Path) -> None:
    holder = hold(tmp_path, "print('held', flush=True); time.sleep(1)")
    assert holder.stdout is not None and holder.stdout.readline() == "held\n"
    with locked(tmp_path, patience=60):
        assert holder.wait(timeout=60) == 0, "the lock was free only when the holder had ended"


def test_a_stage_that_was_finished_while_waiting_is_not_done_again(tmp_path: Path) -> None:
    program = """
        import sys, time
        from pathlib import Path
        from calibsft.artifacts import StageFolder
        def work(folder):
            print("held", flush=True)
            time.sleep(1)
            (folder / "made").write_text("once")
            return {}
        StageFolder(Path(sys.argv[1]), "s", {}).perform(work, False)
        """
    words = [sys.executable, "-c", dedent(program), str(tmp_path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        StageFolder(tmp_path, "s", {}).perform(lambda _: pytest.fail("it is done"), False, patience=60)
    assert (tmp_path / "made").read_text() == "once"


def test_a_finished_stage_is_skipped_while_another_process_holds_its_folder(tmp_path: Path) -> None:
    StageFolder(tmp_path, "s", {}).perform(lambda _: {}, False)
    before = time.monotonic()
    with locked(tmp_path):
        StageFolder(tmp_path, "s", {}).perform(lambda _: pytest.fail("it is done"), False, patience=60)
    assert time.monotonic() - before < 60, "nothing was waited for"
