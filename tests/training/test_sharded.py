"""A training over two processes, whole or cut by FSDP or ZeRO, is that of one process: losses, gradients, weights, resuming."""

import subprocess
from pathlib import Path

import pytest
import torch

from calibsft.errors import InputError
from calibsft.training.shards import Part, read_shard, write_shard
from launching import (
    WAYS,
    assert_same_training,
    environment,
    kill_second_process,
    launcher,
    run_launched,
    write_training_set,
)

pytestmark = pytest.mark.long

SETTINGS = (
    "steps=6", "batch_size=16", "micro_batch_size=4", "learning_rate=1e-3", "max_tokens=64", "save_every=2",
    "warmup_steps=0",
)  # fmt: skip
LORA = ("lora.rank=4", "learning_rate=1e-2")
KINDS = {"weights": (), "adapters": LORA}
LONG = "steps=20"
FIGURES = ("loss", "loss_reasoning", "loss_confidence", "grad_norm")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_training_set(tmp_path_factory.mktemp("sharded") / "sft.parquet")


def words(start: Path, data: Path, out: Path, *settings: str) -> list[str]:
    paths = ["--model", str(start), "--data", str(data), "--out", str(out)]
    return ["sft", *paths, "--device", "cpu", *(f"--set={setting}" for setting in (*SETTINGS, *settings))]


def fine_tune(way: str, start: Path, data: Path, out: Path, *settings: str) -> str:
    return run_launched(way, words(start, data, out, *settings), out.parent)


@pytest.fixture(scope="module")
def alone(random_checkpoint: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The training of one process, by kind."""
    folder = tmp_path_factory.mktemp("alone")
    kinds = {**KINDS, LONG: (LONG,)}
    for kind, settings in kinds.items():
        fine_tune("one", random_checkpoint, data, folder / kind, *settings)
    return {kind: folder / kind for kind in kinds}


@pytest.mark.parametrize("kind", ["weights", pytest.param("adapters", marks=pytest.mark.slow)])
@pytest.mark.parametrize("way", WAYS)
def test_two_processes_train_like_one(
    way: str, kind: str, random_checkpoint: Path, data: Path, alone: dict[str, Path], tmp_path: Path
) -> None:
    fine_tune(way, random_checkpoint, data, tmp_path / "out", *KINDS[kind])
    assert_same_training(tmp_path / "out", alone[kind], *FIGURES)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 2])
def test_more_accumulation_steps_change_nothing(
    rows: int, random_checkpoint: Path, data: Path, alone: dict[str, Path], tmp_path: Path
) -> None:
    # One process takes 4 steps of 4 rows; these are 8 and 4 steps of each of two.
    fine_tune("ddp", random_checkpoint, data, tmp_path / "out", f"micro_batch_size={rows}")
    assert_same_training(tmp_path / "out", alone["weights"], *FIGURES)


@pytest.mark.parametrize("way", WAYS)
def test_a_killed_process_ends_the_training_and_a_rerun_ends_as_if_nothing_had_been(
    way: str, random_checkpoint: Path, data: Path, alone: dict[str, Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    training = words(random_checkpoint, data, out, LONG)
    kill_second_process([*launcher(way, tmp_path), *training], out)
    files = {path.suffix for path in (out / "checkpoints").rglob("*") if path.is_file()}
    assert files <= {"", ".json", ".jinja", ".safetensors"}, "no pickle among them"
    said = fine_tune(way, random_checkpoint, data, out, LONG)
    assert "of 20 steps were done before" in said
    assert_same_training(out, alone[LONG], *FIGURES)


def test_a_cut_training_goes_on_only_as_it_was_cut(tmp_path: Path) -> None:
    cut = Part(0, 2, "FSDP")
    write_shard(tmp_path, cut, {"a": torch.ones(2), "b": {3: [1.5, None]}})
    found = read_shard(tmp_path, cut)
    assert found["b"] == {3: [1.5, None]} and torch.equal(found["a"], torch.ones(2))
    for other, now in {
        Part(0, 3, "FSDP"): "cut by FSDP for 3 processes",
        Part(0, 2, "ZeRO-3"): "cut by ZeRO-3 for 2 processes",
        Part(): "whole",
    }.items():
        with pytest.raises(InputError, match=f"is cut by FSDP for 2 processes and would now be {now}; go on"):
            read_shard(tmp_path, other)


@pytest.mark.slow
def test_a_killed_training_of_two_is_not_taken_up_by_one(
    random_checkpoint: Path, data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    training = words(random_checkpoint, data, out, LONG)
    kill_second_process([*launcher("fsdp2", tmp_path), *training], out)
    done = subprocess.run(
        [*launcher("one", tmp_path), *training],
        env=environment(), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 2 and "cut by FSDP for 2 processes and would now be whole" in done.stderr
    assert (out / "checkpoints").is_dir(), "what was done is kept"


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
