"""kill -9 of a run that has stages side by side: no process stays behind, and a rerun ends as if nothing had been."""

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from command_process import ENVIRONMENT, calibsft, ended, finish, under_way

SIDE_BY_SIDE = ("sft", "rlcr")
# Enough not to be done in the second that a worker may outlive its parent.
RL_STEPS = 30
ENDS_WITHIN = 8.0  # seconds; a worker looks for its parent every second


@pytest.fixture
def recipe(short_base: Path, tmp_path: Path) -> Path:
    """CalibSFT and RLCR from a model of one's own, long enough to be killed in both."""
    questions = [
        {"question_id": a, "question": f"{a}*10", "gold": f"{a * 10:04d}", "kind": "exact"}
        for a in range(10, 40)
    ]
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in questions))
    settings = {
        "model": str(short_base),
        "device": "cpu",
        "questions": {"source": str(tmp_path / "questions.jsonl")},
        "rollout": {"samples": 12, "max_new_tokens": 30},
        "sft": {
            "steps": 30, "batch_size": 64, "micro_batch_size": 16, "learning_rate": 1e-3, "max_tokens": 64,
            "save_every": 5,
        },
        "rl": {
            "steps": RL_STEPS, "questions": 4, "micro_batch_size": 16, "learning_rate": 1e-3, "max_new_tokens": 30,
            "save_every": 1,
        },
        "eval": {"benchmarks": ["cross"], "limit": 5, "samples": 4, "max_new_tokens": 30},
        "pipelines": [["calibsft"], ["rlcr"]],
        "jobs": 2,
    }  # fmt: skip
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


def calibsft_run(recipe: Path, out: Path, *words: str) -> list[str]:
    return calibsft("run", recipe, "--out", out, *words)


def processes() -> dict[int, tuple[int, str]]:
    """Parent and state of every process; Linux and macOS both have this ps."""
    lines = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,stat="], capture_output=True, text=True, check=True)
    rows = (line.split() for line in lines.stdout.splitlines())
    return {int(pid): (int(parent), state) for pid, parent, state in rows}


def descendants(pid: int) -> Iterator[int]:
    children: dict[int, list[int]] = {}
    for child, (parent, _) in processes().items():
        children.setdefault(parent, []).append(child)
    pending = [pid]
    while pending:
        found = children.get(pending.pop(), [])
        yield from found
        pending += found


def alive(pids: set[int]) -> set[int]:
    """Those that still run; one that has ended but was not collected by anyone does not."""
    return {pid for pid, (_, state) in processes().items() if pid in pids and not state.startswith("Z")}


def steps(stage: Path) -> int:
    path = stage / "metrics.jsonl"
    return len(path.read_text().splitlines()) if path.is_file() else 0


def results(run: Path) -> dict[str, str]:
    return {
        path.parent.name: json.loads(path.read_text())["content_hash"] for path in run.glob("*/manifest.json")
    }


def test_a_killed_run_leaves_no_worker_and_goes_on_to_the_same_result(recipe: Path, tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    said = (tmp_path / "said.txt").open("w")
    parent = subprocess.Popen(
        calibsft_run(recipe, killed), env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=said
    )
    deadline = time.monotonic() + 200
    while any(steps(killed / name) < 2 for name in SIDE_BY_SIDE):
        assert parent.poll() is None, (tmp_path / "said.txt").read_text()
        assert time.monotonic() < deadline, "the stages never ran side by side"
        time.sleep(0.005)
    assert not any((killed / name / "manifest.json").exists() for name in SIDE_BY_SIDE), "both still run"
    workers = set(descendants(parent.pid))
    assert len(alive(workers)) >= 2
    parent.send_signal(signal.SIGKILL)
    assert parent.wait() == -signal.SIGKILL
    rerun = subprocess.Popen(calibsft_run(recipe, killed), env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + ENDS_WITHIN
    while left := alive(workers):
        assert time.monotonic() < deadline, f"processes {left} outlived the run"
        time.sleep(0.05)
    told = rerun.communicate(timeout=300)[1]
    assert rerun.returncode == 0, told
    assert all(f"{name}: done before, skipped" in told for name in ("rollout", "verify", "build"))
    assert "rlcr: " in told and f"of {RL_STEPS} steps were done before" in told
    assert [steps(killed / name) for name in SIDE_BY_SIDE] == [30, RL_STEPS], "every step once"
    # One stage after the other in one process: what runs beside a stage does not change it.
    finish(calibsft_run(recipe, whole, "--set", "jobs=1"))
    found, wanted = results(killed), results(whole)
    assert (
        found.keys() == wanted.keys() >= {"sft", "rlcr", "eval-base", "eval-calibsft", "eval-rlcr", "report"}
    )
    differing = {name for name in wanted if name != "report" and found[name] != wanted[name]}
    assert not differing, "the report alone shows times"


def test_a_second_run_is_refused_and_does_not_change_the_first(recipe: Path, tmp_path: Path) -> None:
    out, quick = tmp_path / "out", ("--set", "rl.steps=2", "--set", "sft.steps=2")
    with under_way(calibsft_run(recipe, out, *quick), lambda: (out / "rollout").is_dir()) as first:
        first.send_signal(signal.SIGSTOP)  # no stage begins before the second command has ended
        before = (out / "recipe.resolved.yaml").read_text()
        code, said = ended(calibsft_run(recipe, out, *quick, "--set", "seed=5"))
        assert code == 2 and f"{out}: process {first.pid} on " in said, said
        assert (out / "recipe.resolved.yaml").read_text() == before
        first.send_signal(signal.SIGCONT)
        assert first.wait(timeout=300) == 0
    settings = [yaml.safe_load((out / name / "recipe.resolved.yaml").read_text()) for name in SIDE_BY_SIDE]
    assert [stage["settings"]["seed"] for stage in settings] == [0, 0]
