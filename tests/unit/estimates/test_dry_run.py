"""`calibsft run --dry-run`: the recipe and its estimate on standard output, and what is refused."""

from pathlib import Path

import pytest

from calibsft.estimates import gpus
from calibsft.recipe import load_recipe, shipped_machines, shipped_recipes
from command import Command


@pytest.fixture(autouse=True)
def _no_gpu_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "_own_memory", lambda: None)


def comments(printed: str) -> list[str]:
    return [line.removeprefix("#").strip() for line in printed.splitlines() if line.startswith("#")]


def row(printed: str, stage: str) -> list[str]:
    """The cells of a stage in the first table."""
    return next(line.split() for line in comments(printed) if line.split()[:1] == [stage])


def test_the_paper_s_counts_are_printed(calibsft: Command) -> None:
    code, printed, said = calibsft("run", "qwen3-8b/methods", "--with", "8-gpus", "--dry-run")
    assert code == 0 and said.startswith("stages: eval-base, rollout, verify, build, sft, ")
    assert row(printed, "rollout") == ["rollout", "1,845,750", "-", "15.1", "G", "121", "GB", "-", "147.0"]
    assert row(printed, "sft")[2] == "180" and row(printed, "rlcr")[1:3] == ["81,920", "160"]
    rows = "100 target values, and as many rows of each as of the rarest: 34,900 rows if that has 349, as in the paper."
    assert f"build, build-integer, rlvr-build: {rows}" in comments(printed)


def test_what_is_printed_is_a_recipe_that_loads_to_the_same(calibsft: Command) -> None:
    code, printed, _ = calibsft("run", "qwen3-8b/methods", "--with", "8-gpus", "--dry-run")
    Path("printed.yaml").write_text(printed)
    assert code == 0 and load_recipe("printed.yaml") == load_recipe("qwen3-8b/methods", [], ["8-gpus"])


@pytest.mark.parametrize("name", shipped_recipes())
def test_every_shipped_recipe_is_estimated(calibsft: Command, name: str) -> None:
    code, printed, _ = calibsft("run", name, "--dry-run")
    assert code == 0 and row(printed, "report")


@pytest.mark.parametrize("machine", shipped_machines())
def test_memory_is_printed_by_part(calibsft: Command, machine: str) -> None:
    _, printed, _ = calibsft("run", "qwen3-8b/calibsft", "--with", machine, "--dry-run")
    line = next(line for line in comments(printed) if line.startswith("sft ") and "weights" in line)
    for part in ("weights", "gradients", "optimiser", "copies", "activations", "logits"):
        assert f"{part} " in line


def test_what_does_not_fit_ends_with_one_sentence_after_the_estimate(calibsft: Command) -> None:
    code, printed, said = calibsft(
        "run", "qwen3-8b/calibsft", "--with", "8-gpus", "--set", "launch.gpu_memory_gb=24", "--dry-run"
    )
    assert code == 2 and row(printed, "rollout")
    (last,) = said.splitlines()[1:]
    # 70 % of 24 GB for the engine, and the judge's 16.4 GB.
    assert last.startswith(
        "calibsft: eval-base needs up to 33.2 GB of GPU 0, which has 24.0 GB, most of it for judge's weights"
    )


def test_a_measured_rate_gives_the_hours_of_sampling(calibsft: Command) -> None:
    _, printed, _ = calibsft("run", "olmo-3-7b", "--rate", "4200000", "--dry-run")
    # 1,845,750 x 8,192 tokens at 4.2 million tokens per second.
    assert row(printed, "rollout")[-1] == "1.0" and row(printed, "sft")[-1] == "?"
    assert any("--rate gives those of sampling" in line for line in comments(printed))


def test_what_is_unknown_is_said(calibsft: Command) -> None:
    _, printed, _ = calibsft("run", "gemma-4-e2b", "--dry-run")
    said = comments(printed)
    assert any("the shape of google/gemma-4-E2B-it is not known here" in line for line in said)
    assert row(printed, "rollout")[-1] == row(printed, "in")[-1] == "?"
    _, printed, _ = calibsft("run", "qwen3-8b/calibsft", "--set", "launch.sft=srun python", "--dry-run")
    assert any(line.startswith("GPU memory is unknown for sft: ") for line in comments(printed))
    assert any(line.startswith("Whether it fits is not checked") for line in comments(printed))


def test_a_run_on_a_cpu_has_no_gpu_figures(calibsft: Command) -> None:
    _, printed, _ = calibsft("run", "tiny", "--dry-run")
    assert "Runs on a CPU: no GPU-hours and no GPU memory." in comments(printed)
    assert row(printed, "rollout")[-1] == "-" and not any(
        "GB of each GPU" in line for line in comments(printed)
    )


def test_a_rate_without_a_dry_run_is_refused(calibsft: Command) -> None:
    code, _, said = calibsft("run", "tiny", "--rate", "100")
    assert (code, said) == (
        2,
        "calibsft: --rate means nothing without --dry-run; give both, or leave it out\n",
    )
    assert calibsft("run", "tiny", "--rate", "0", "--dry-run")[0] == 2
