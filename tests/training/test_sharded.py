"""A model that is cut over two processes is trained, resumed and saved like one that is whole."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml
from torch import Tensor

from calibsft.models import load_model
from launching import free_port, two_processes, write_training_set

FSDP = str(Path(__file__).parents[1] / "support/sharded_process.py")
SETTINGS = (
    "steps=4", "batch_size=8", "micro_batch_size=4", "learning_rate=1e-3", "max_tokens=64", "save_every=2",
)  # fmt: skip
LORA = ("lora.rank=4", "learning_rate=1e-2")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_training_set(tmp_path_factory.mktemp("sharded") / "sft.parquet")


def fine_tune(
    launcher: list[str], checkpoint: Path, data: Path, out: Path, *settings: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    paths = ["--model", str(checkpoint), "--data", str(data), "--out", str(out)]
    changes = [word for setting in (*SETTINGS, *settings) for word in ("--set", setting)]
    return subprocess.run(
        [sys.executable, *launcher, "sft", *paths, "--device", "cpu", *changes],
        env=os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"} | variables,
        capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip


def logits(checkpoint: Path) -> Tensor:
    """What a model says as anybody would load it."""
    model = load_model(str(checkpoint), "cpu", "float32").eval()
    with torch.no_grad():
        found: Tensor = model(input_ids=torch.arange(3, 20)[None]).logits
    return found


def assert_same_model(found: Path, expected: Path, start: Path) -> None:
    """Far nearer to each other than training has taken them from their start."""
    moved = (logits(expected) - logits(start)).norm()
    assert (logits(found) - logits(expected)).norm() < 0.01 * moved
    names = {path.name for path in found.iterdir()}
    assert names == {path.name for path in expected.iterdir()}


def fsdp(version: int, state_dict: str) -> list[str]:
    return [*two_processes(), FSDP, str(version), state_dict]


def test_fsdp_with_a_sharded_state_dict_saves_the_model_that_one_process_would(
    random_checkpoint: Path, data: Path, tmp_path: Path
) -> None:
    one = fine_tune(["-m", "calibsft"], random_checkpoint, data, tmp_path / "one")
    assert one.returncode == 0, one.stderr
    launcher = fsdp(2, "SHARDED_STATE_DICT")
    killed = fine_tune(launcher, random_checkpoint, data, tmp_path / "cut", STOP_AT="3")
    assert killed.returncode != 0 and (tmp_path / "cut" / "checkpoints" / "checkpoint-2").is_dir()
    cut = fine_tune(launcher, random_checkpoint, data, tmp_path / "cut")
    assert cut.returncode == 0, cut.stderr
    assert cut.stderr.count("parameters are cut: True") == 2 and "2 of 4 steps were done before" in cut.stderr
    assert_same_model(tmp_path / "cut" / "model", tmp_path / "one" / "model", random_checkpoint)
    assert not (tmp_path / "cut" / "checkpoints").exists()


def test_adapters_of_a_model_that_fsdp_has_cut_are_merged(
    random_checkpoint: Path, data: Path, tmp_path: Path
) -> None:
    one = fine_tune(["-m", "calibsft"], random_checkpoint, data, tmp_path / "one", *LORA)
    assert one.returncode == 0, one.stderr
    cut = fine_tune(fsdp(2, "SHARDED_STATE_DICT"), random_checkpoint, data, tmp_path / "cut", *LORA)
    assert cut.returncode == 0, cut.stderr
    assert cut.stderr.count("parameters are cut: True") == 2
    assert_same_model(tmp_path / "cut" / "model", tmp_path / "one" / "model", random_checkpoint)


def test_rl_of_a_model_that_fsdp_has_cut_is_refused(random_checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "questions.jsonl").write_text('{"question_id": 1, "question": "1*1", "gold": "1"}\n')
    paths = ["--model", random_checkpoint, "--data", tmp_path / "questions.jsonl", "--out", tmp_path / "out"]
    done = subprocess.run(
        [sys.executable, *fsdp(2, "SHARDED_STATE_DICT"), "rl", "--method", "rlcr", *map(str, paths)]
        + ["--device", "cpu", "--set", "questions=4"],
        env=os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode != 0 and "rl cannot sample from a model that FSDP has cut" in done.stderr


def deepspeed(folder: Path, stage: int, gather: bool) -> list[str]:
    """The words that launch DeepSpeed with a configuration as `accelerate config` writes it."""
    pytest.importorskip("deepspeed")
    cut = {"zero_stage": stage, "zero3_init_flag": False, "zero3_save_16bit_model": gather}
    machine = {"distributed_type": "DEEPSPEED", "use_cpu": True, "num_machines": 1, "num_processes": 2}
    config = {"compute_environment": "LOCAL_MACHINE", "mixed_precision": "no", "machine_rank": 0, **machine}
    (folder / "accelerate.yaml").write_text(yaml.safe_dump({**config, "deepspeed_config": cut}))
    launch = ["-m", "accelerate.commands.launch", "--config_file", str(folder / "accelerate.yaml")]
    return [*launch, f"--main_process_port={free_port()}", "-m", "calibsft"]


@pytest.mark.slow
@pytest.mark.parametrize("settings", [(), LORA], ids=["weights", "adapters"])
@pytest.mark.parametrize("stage", [2, 3])
def test_deepspeed_saves_the_model_that_one_process_would(
    stage: int, settings: tuple[str, ...], random_checkpoint: Path, data: Path, tmp_path: Path
) -> None:
    launcher = deepspeed(tmp_path, stage, gather=True)
    one = fine_tune(["-m", "calibsft"], random_checkpoint, data, tmp_path / "one", *settings)
    assert one.returncode == 0, one.stderr
    cut = fine_tune(launcher, random_checkpoint, data, tmp_path / "cut", *settings, DS_ACCELERATOR="cpu")
    assert cut.returncode == 0, cut.stderr
    assert_same_model(tmp_path / "cut" / "model", tmp_path / "one" / "model", random_checkpoint)


@pytest.mark.slow
def test_zero_3_without_gathering_is_refused_before_the_first_step(
    random_checkpoint: Path, data: Path, tmp_path: Path
) -> None:
    launcher = deepspeed(tmp_path, 3, gather=False)
    done = fine_tune(launcher, random_checkpoint, data, tmp_path / "out", DS_ACCELERATOR="cpu")
    assert done.returncode != 0 and "set zero3_save_16bit_model: true" in done.stderr
    assert not (tmp_path / "out" / "metrics.jsonl").exists()
