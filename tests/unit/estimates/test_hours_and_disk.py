"""GPU-hours and disk of a stage."""

from pathlib import Path

import pytest

from calibsft.estimates.counts import Counts, counts_of
from calibsft.estimates.disk import Disk, disk_of
from calibsft.estimates.hours import gpu_hours
from calibsft.estimates.shapes import Shape
from calibsft.pipeline import Planned, plan
from calibsft.recipe import load_recipe

QWEN = "Qwen/Qwen3-8B"
# 1,000 parameters; adapters of rank 2 have 640: 2 x 2 layers x (2 x 20 + 2 x 15 + 3 x 30).
SMALL = Shape(1000, 2, 10, 2, 1, 5, 20, 30, tied=True)


def planned(*overrides: str, machine: str = "8-gpus") -> tuple[dict[str, Planned], dict[str, Counts]]:
    recipe = load_recipe("qwen3-8b/methods", list(overrides), [machine])
    stages = {stage.name: stage for stage in plan(recipe, Path("run"))}
    return stages, {name: counts_of(stage, stages) for name, stage in stages.items()}


def hours(name: str, *overrides: str, model: str = QWEN, rate: float | None = None) -> float | None:
    stages, counts = planned(*overrides)
    return gpu_hours(stages[name].stage, counts[name], model, rate)


def test_the_paper_s_hours() -> None:
    assert hours("rollout") == pytest.approx(147)
    # 180 steps x 0.33 minutes x 8 GPUs; 200 steps are the 8.8 GPU-hours of the paper's table.
    assert hours("sft") == pytest.approx(180 * 0.33 * 8 / 60) == pytest.approx(7.92)
    assert hours("sft", "sft.steps=200") == pytest.approx(8.8)
    assert hours("rlcr") == pytest.approx(160 * 4.77 * 8 / 60) == pytest.approx(101.76)
    # The table says 127.3.
    assert hours("rlcr", "rl_methods.rlcr.steps=200") == pytest.approx(127.2)


def test_hours_are_scaled_by_responses() -> None:
    assert hours("rollout", "rollout.samples=25") == pytest.approx(73.5)
    assert hours("sft", "sft.batch_size=128") == pytest.approx(3.96)
    assert hours("rlcr", "rl.questions=32") == pytest.approx(50.88)


def test_a_measured_rate_is_for_sampling_alone() -> None:
    # 36,915 x 50 responses of 8,192 tokens at 4,200,000 tokens per hour.
    assert hours("rollout", rate=4_200_000 / 3600) == pytest.approx(1_845_750 * 8192 / 4.2e6)
    assert hours("rlcr", rate=100) == pytest.approx(101.76)


def test_hours_of_another_model_are_unknown_without_a_rate() -> None:
    assert hours("rollout", model="other/model") is hours("sft", model="other/model") is None
    assert hours("sft", model="other/model", rate=100) is None
    assert hours("rollout", "rollout.samples=1", model="other/model", rate=1000) == pytest.approx(
        36_915 * 8192 / 3.6e6
    )
    assert hours("rollout", model=f"{QWEN}@main") == pytest.approx(147)


def test_stages_without_a_gpu_take_no_hours() -> None:
    assert hours("verify") == hours("build") == hours("report") == 0


def disk(name: str, *overrides: str, machine: str = "8-gpus", rows: int = 0) -> Disk:
    stages, counts = planned(*overrides, machine=machine)
    return disk_of(stages[name].stage, counts[name], SMALL, rows)


def test_responses_take_eight_bytes_a_token() -> None:
    assert disk("rollout") == Disk(1_845_750 * 8192 * 8.0, 0.0)
    assert disk("eval-base") == Disk(199_436 * 16_384 * 8.0, 0.0)


def test_a_training_set_is_written_twice() -> None:
    assert disk("build", rows=34_900) == Disk(2 * 34_900 * 8192 * 8.0, 0.0)


def test_a_training_keeps_its_model_and_has_three_checkpoints_while_it_writes_one() -> None:
    # float32 weights; weights and two numbers of AdamW for each parameter.
    assert disk("sft") == Disk(4000.0, 3 * 12_000.0)
    assert disk("sft", "sft.save_every=100").running == 2 * 12_000, "after 100 steps and at the end"
    assert disk("sft", "sft.save_every=1000").running == 12_000


def test_weights_for_servers_lie_on_disk_twice() -> None:
    assert disk("rlcr").running == 3 * 12_000 + 2 * 2000
    assert disk("rlcr", "rl.servers.weights=nccl").running == 3 * 12_000


def test_running_checkpoints_of_adapters_are_small_and_the_model_is_whole() -> None:
    found = disk("sft", "sft.lora.rank=2", machine="one-80gb-gpu")
    assert found == Disk(4000.0, 3 * 12.0 * 640)


def test_disk_of_unknown_models_and_numbers_is_unknown() -> None:
    stages, counts = planned()
    assert disk_of(stages["sft"].stage, counts["sft"], None, 0) == Disk(None, None)
    assert disk_of(stages["rollout"].stage, Counts(None, 8192), None, 0).kept is None
