"""A run whose trainings are started by a launcher: same results, one voice, and they end with the run."""

import json
import os
import re
import shutil
import signal
from pathlib import Path

import pytest

from command_process import calibsft, ended, finish, under_way
from launching import free_port

pytestmark = pytest.mark.long

SMALL = (
    "base.steps=200", "base.warmup_steps=20", "questions.limit=60", "rollout.samples=20", "rollout.shard_questions=60",
    "sft.steps=40", "sft.batch_size=16", "sft.micro_batch_size=8", "sft.save_every=2", "targets.redraws=1",
    "eval.limit=5", "eval.samples=2", "pipelines=[[calibsft]]",
)  # fmt: skip


def run(out: Path, *changes: str) -> list[str]:
    return calibsft("run", "tiny", "--out", out, *(f"--set={change}" for change in (*SMALL, *changes)))


def two_processes() -> str:
    return f"launch.sft=torchrun --nproc_per_node=2 --master_port={free_port()}"


def losses(out: Path) -> list[float]:
    return [json.loads(line)["loss"] for line in (out / "sft" / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in one process."""
    out = tmp_path_factory.mktemp("launched") / "one"
    finish(run(out))
    return out


@pytest.fixture
def untrained(finished: Path, tmp_path: Path) -> Path:
    """The same run before its fine-tuning."""
    out = tmp_path / "run"
    shutil.copytree(finished, out, ignore=shutil.ignore_patterns("sft", "eval-calibsft", "report"))
    return out


def test_a_launched_training_gives_what_one_process_gives(finished: Path, untrained: Path) -> None:
    said = finish(run(untrained, two_processes()))
    assert losses(untrained) == pytest.approx(losses(finished), rel=1e-5)
    assert "build: done before, skipped" in said
    for line in ("sft: 40/40 steps", "sft: done in", "eval-calibsft: done in", "report: done in"):
        assert said.count(f"\n{line}") == 1, "one voice, and nothing but the training has two processes"
    again = finish(run(untrained, two_processes()))
    assert "sft: done before, skipped" in again and "torch" not in again


def test_what_a_launched_training_refuses_is_the_last_word_of_the_run(untrained: Path) -> None:
    code, said = ended(run(untrained, two_processes(), "sft.batch_size=24", "sft.micro_batch_size=24"))
    sentence = "sft.batch_size 24 is not a multiple of micro_batch_size x devices (48); change either"
    assert code == 2 and said.splitlines()[-1] == f"calibsft: {sentence}"
    assert not (untrained / "sft" / "model").exists()


def test_a_launcher_that_fails_or_is_missing_is_named(untrained: Path) -> None:
    code, said = ended(run(untrained, "launch.sft=torchrum --nproc_per_node=2"))
    assert code == 2 and "the launcher 'torchrum' is not installed" in said
    code, said = ended(run(untrained, "launch.sft=torchrun --nproc_per_node=none"))
    assert code == 2 and "'torchrun --nproc_per_node=none' started ended with code 1" in said


def processes_of(out: Path) -> set[int]:
    """The processes whose command names this run."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if str(out).encode() in words:
            found.add(int(path.parent.name))
    return found - {os.getpid()}


SIGNALS = [
    signal.SIGKILL,
    *(pytest.param(s, marks=pytest.mark.slow) for s in (signal.SIGINT, signal.SIGTERM)),
]


@pytest.mark.parametrize("number", SIGNALS)
def test_launched_processes_end_with_the_run_and_a_rerun_goes_on(
    number: int, finished: Path, untrained: Path
) -> None:
    command = run(untrained, two_processes())
    saved = untrained / "sft" / "checkpoints" / "checkpoint-2" / "complete"
    with under_way(command, saved.is_file) as child:
        launched = processes_of(untrained)
        assert len(launched) >= 3, "the launcher and two processes"
        os.kill(child.pid, number)
        child.wait(60)
    for _ in range(100):
        if not processes_of(untrained):
            break
        signal.sigtimedwait([], 0.2)
    assert not processes_of(untrained)
    said = finish(command)
    assert re.search(r"sft: [0-9]+ of 40 steps were done before", said)
    assert losses(untrained) == pytest.approx(losses(finished), rel=1e-5)
