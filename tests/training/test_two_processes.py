"""Training over two processes is training over one: same losses, one folder, one voice."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from calibsft.cli import main
from launching import journal, two_processes, write_training_set
from shared_questions import EVEN_TENS, of_second_process, write_questions

pytestmark = pytest.mark.long

SETTINGS = (
    "steps=5",
    "batch_size=16",
    "micro_batch_size=4",
    "learning_rate=1e-3",
    "max_tokens=64",
    "save_every=2",
)


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
    data = write_training_set(tmp_path / "sft.parquet")
    one, _ = fine_tune([], random_checkpoint, data, tmp_path / "one")
    two, stdout = fine_tune(two_processes(), random_checkpoint, data, tmp_path / "two")
    assert two == pytest.approx(one, rel=1e-5)
    assert len(two) == 5
    assert stdout.count("checkpoint:") == 1
    manifests = [json.loads((tmp_path / name / "manifest.json").read_text()) for name in ("one", "two")]
    assert manifests[0]["files"].keys() == manifests[1]["files"].keys()


RL_SETTINGS = (
    "steps=3",
    "questions=8",
    "updates=1",
    "micro_batch_size=16",
    "learning_rate=1e-4",
    "warmup_steps=0",
    "max_new_tokens=30",
    "save_every=2",
)
# Of one seed and no time: what one rollout step saw and learned.
FIGURES = (
    "loss",
    "grad_norm",
    "pass@1",
    "brier",
    "ece",
    "top1",
    "distinct_values",
    "malformed",
    "response_tokens",
)


def rl_words(method: str, checkpoint: Path, data: Path, out: Path, *words: str) -> list[str]:
    changes = [word for setting in RL_SETTINGS for word in ("--set", setting)]
    paths = ["--model", str(checkpoint), "--data", str(data), "--out", str(out)]
    return ["rl", "--method", method, *paths, "--device", "cpu", *changes, *words]


def launched(words: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *two_processes(), "-m", "calibsft", *words],
        env=os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def launch(words: list[str]) -> tuple[str, str]:
    done = launched(words)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    """Questions with success rates that C3RL can compare with."""
    golds = dict.fromkeys(range(10, 40), EVEN_TENS)
    return write_questions(tmp_path / "questions.jsonl", golds, success_rate=lambda a: (a % 3) / 2)


def test_two_processes_learn_from_rewards_like_one(
    short_base: Path, questions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # C3RL takes every group, so that both arrangements train on the same ones.
    def words(out: str) -> list[str]:
        # One step, since a token that rounding decides otherwise would lead the next ones elsewhere.
        return rl_words(
            "c3rl", short_base, questions, tmp_path / out, "--format", "integer", "--set", "steps=1"
        )

    monkeypatch.setattr(sys, "argv", ["calibsft", *words("one")])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    stdout, _ = launch(words("two"))
    assert stdout.count("checkpoint:") == 1
    one, two = journal(tmp_path / "one"), journal(tmp_path / "two")
    assert [row["step"] for row in two] == [1]
    for name in FIGURES:
        assert [row[name] for row in two] == pytest.approx([row[name] for row in one], abs=1e-4), name
    assert all(row["kept_groups"] == row["generated_groups"] == 8 for row in two)
    assert all(0 < row["grad_norm"] < 100 and 0 < row["pass@1"] < 1 for row in two)
    weights = [load_file(tmp_path / name / "model" / "model.safetensors") for name in ("one", "two")]
    start = load_file(short_base / "model.safetensors")
    apart, moved = (
        sum(((weights[0][name] - other[name]) ** 2).sum() for name in start) for other in (weights[1], start)
    )
    assert weights[0].keys() == weights[1].keys() and apart < 0.05**2 * moved
    manifests = [json.loads((tmp_path / name / "manifest.json").read_text()) for name in ("one", "two")]
    assert manifests[0]["files"].keys() == manifests[1]["files"].keys()
    assert manifests[0]["updates"] == manifests[1]["updates"] == 1


def test_two_processes_fill_a_step_together_and_speak_with_one_voice(
    short_base: Path, questions: Path, tmp_path: Path
) -> None:
    out = tmp_path / "rl"
    evaluated = ("--benchmarks", "cross", "--set", "eval_every=2", "--set", "eval_questions=2")
    stdout, stderr = launch(rl_words("rlcr", short_base, questions, out, *evaluated))
    assert stdout == f"checkpoint: {out / 'model'}\n"
    assert stderr.count("rl: done in") == 1 and stderr.count("questions are always solved and left out") == 1
    rows = journal(out)
    assert [row["step"] for row in rows] == [1, 2, 3]
    assert all(row["kept_groups"] == 8 or row["batches"] == 20 for row in rows)
    assert all(row["generated_groups"] == 8 * row["batches"] for row in rows)
    assert all(0 < row["grad_norm"] < 100 and abs(row["loss"]) < 1 for row in rows)
    assert [json.loads(line)["step"] for line in (out / "evals.jsonl").read_text().splitlines()] == [2]


def test_a_process_that_keeps_nothing_trains_beside_one_that_does(
    short_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = range(10, 40)
    unsolvable = of_second_process(numbers, seed=43)
    golds = {a: ["nothing"] if a in unsolvable else EVEN_TENS for a in numbers}
    questions = write_questions(tmp_path / "questions.jsonl", golds)

    def words(out: str) -> list[str]:
        bounded = ("--set", "max_batches=1", "--set", "steps=1")
        return rl_words("rlcr", short_base, questions, tmp_path / out, *bounded)

    monkeypatch.setattr(sys, "argv", ["calibsft", *words("one")])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    _, stderr = launch(words("two"))
    (one,), (two,) = journal(tmp_path / "one"), journal(tmp_path / "two")
    assert 0 < two["kept_groups"] == one["kept_groups"] <= 4, "those of the first process"
    assert stderr.count(f"only {two['kept_groups']:.0f} of 8 groups had right and wrong responses") == 1
    for name in FIGURES:
        assert two[name] == pytest.approx(one[name], abs=1e-4), name
    assert two["grad_norm"] > 0


def test_where_no_process_has_anything_to_learn_from_all_of_them_say_so(
    short_base: Path, tmp_path: Path
) -> None:
    golds = {a: ["nothing"] for a in range(10, 40)}
    questions = write_questions(tmp_path / "questions.jsonl", golds)
    done = launched(rl_words("rlcr", short_base, questions, tmp_path / "out", "--set", "max_batches=1"))
    assert done.returncode != 0
    assert "in 8 groups (0 all right, 8 all wrong)" in done.stderr, "counted over both processes"
    assert "unexpected" not in done.stderr and not (tmp_path / "out" / "model").exists()


def test_processes_that_disagree_say_on_what(random_checkpoint: Path, tmp_path: Path) -> None:
    """As on two nodes, each of which was given its own command line."""
    data, out = write_training_set(tmp_path / "sft.parquet"), tmp_path / "out"
    words = f"-m calibsft sft --model {random_checkpoint} --data {data} --out {out} --device cpu --set batch_size=16"
    script = f"exec {sys.executable} {words} --set steps=$((5 + RANK))"
    _, *launcher = two_processes()
    done = subprocess.run(
        [sys.executable, "-m", *launcher, "--no-python", "sh", "-c", script],
        env=os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert (
        "the processes of this training disagree: sft.steps is 5 in process 0 and 6 in process 1"
        in done.stderr
    )
    assert not (out / "model").exists() and not (out / "metrics.jsonl").exists()
