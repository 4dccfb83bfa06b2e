"""`calibsft export verl`: the files that it writes, the settings in verl's words, and what it refuses."""

import os
import subprocess
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from calibsft.models import load_tokenizer
from calibsft.responses.formats import FORMATS
from calibsft.responses.prompts import Prompting
from calibsft.rl.methods import METHODS
from command import Command
from sampled_run import QUESTIONS, SAMPLES, sample_run, write_recipe


@pytest.fixture(scope="module")
def run(random_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A recipe and the folder of its run."""
    folder = tmp_path_factory.mktemp("verl")
    recipe = write_recipe(folder, random_checkpoint)
    sample_run(recipe, folder / "run")
    return recipe, folder / "run"


def exported(calibsft: Command, run: tuple[Path, Path], *options: object) -> dict[str, Any]:
    """The config that is exported to the folder `out`."""
    recipe, root = run
    code, out, err = calibsft("export", "verl", recipe, "--run", root, "--out", "out", *options)
    assert (code, out) == (0, "export: out\ntrain: bash out/train.sh\n"), err
    config: dict[str, Any] = yaml.safe_load(Path("out/config.yaml").read_text())
    return config


def rl(
    calibsft: Command, run: tuple[Path, Path], random_checkpoint: Path, *options: object
) -> dict[str, Any]:
    return exported(calibsft, run, "--model", random_checkpoint, *options)


def test_rl_data_has_every_question_that_is_not_always_solved(
    calibsft: Command, run: tuple[Path, Path], random_checkpoint: Path
) -> None:
    rl(calibsft, run, random_checkpoint, "--pipeline", "calibsft,rlcr")
    rows = pl.read_parquet("out/train.parquet").to_dicts()
    assert [row["extra_info"]["question"] for row in rows] == list(QUESTIONS)
    assert [row["reward_model"]["ground_truth"] for row in rows] == [[gold] for gold in QUESTIONS.values()]
    assert {row["extra_info"]["success_rate"] for row in rows} == {0.5}
    assert {row["extra_info"]["kind"] for row in rows} == {"exact"}


def test_the_turns_in_rl_data_lead_to_the_prompt_of_calibsft(
    calibsft: Command, run: tuple[Path, Path], random_checkpoint: Path
) -> None:
    rl(calibsft, run, random_checkpoint, "--pipeline", "calibsft,rlcr")
    tokenizer, prompting = load_tokenizer(str(random_checkpoint)), Prompting(FORMATS["probability"])
    for row in pl.read_parquet("out/train.parquet").to_dicts():
        text = tokenizer.apply_chat_template(row["prompt"], tokenize=False, add_generation_prompt=True)
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        assert tuple(ids) == prompting.ids(tokenizer, row["extra_info"]["question"])


def test_rl_settings_are_written_in_the_words_of_verl(
    calibsft: Command, run: tuple[Path, Path], random_checkpoint: Path
) -> None:
    changes = [
        "rl.kl=0.01",
        "rl.dual_clip=3",
        "rl.lora.rank=4",
        "rl.final_rate=0.1",
        "seed=7",
        "rl.eval_every=2",
    ]
    benchmarks = "eval.benchmarks=[multiply-1, cross]"
    options = [word for change in [*changes, benchmarks, "rl.eval_questions=3"] for word in ("--set", change)]
    config = rl(calibsft, run, random_checkpoint, "--pipeline", "calibsft,rlcr", *options)
    actor, trainer = config["actor_rollout_ref"]["actor"], config["trainer"]
    assert config["data"]["train_batch_size"] == 4 and config["data"]["seed"] == 7
    assert config["data"]["max_prompt_length"] == 32 and config["data"]["max_response_length"] == 40
    assert config["actor_rollout_ref"]["rollout"]["n"] == 4
    assert actor["ppo_mini_batch_size"] == 2
    assert actor["ppo_max_token_len_per_gpu"] == 8 * (32 + 40)
    assert actor["use_kl_loss"] is True and actor["kl_loss_coef"] == 0.01
    assert (actor["clip_ratio_low"], actor["clip_ratio_high"], actor["clip_ratio_c"]) == (0.2, 0.28, 3)
    assert actor["optim"]["min_lr_ratio"] == 0.1 and actor["optim"]["lr_scheduler_type"] == "cosine"
    assert config["actor_rollout_ref"]["model"]["lora_rank"] == 4
    assert config["actor_rollout_ref"]["model"]["path"] == str(random_checkpoint.resolve())
    assert trainer["total_training_steps"] == 2 and trainer["test_freq"] == 2
    assert len(pl.read_parquet("out/held-out.parquet")) == 6
    assert "held-out.parquet" in Path("out/train.sh").read_text()


@pytest.mark.parametrize("method", METHODS)
def test_groups_are_dropped_by_correctness_if_the_method_does(
    calibsft: Command, run: tuple[Path, Path], random_checkpoint: Path, method: str
) -> None:
    config = rl(calibsft, run, random_checkpoint, "--pipeline", method)
    dropped = config["algorithm"]["filter_groups"]
    assert dropped == {"enable": METHODS[method].dynamic_sampling, "metric": "correct"}
    assert config["calibsft"]["rl"]["name"] == method
    assert config["calibsft"]["format"] == (METHODS[method].formats or ("probability",))[0]


@pytest.mark.parametrize("option", ["keep_unanimous", "all_groups"])
def test_unanimous_groups_stay_if_the_recipe_says_so(
    calibsft: Command, run: tuple[Path, Path], random_checkpoint: Path, option: str
) -> None:
    kept = ["--set", f"rl_methods.coca.{option}=true"]
    config = rl(calibsft, run, random_checkpoint, "--pipeline", "coca", *kept)
    assert config["algorithm"]["filter_groups"]["enable"] is False


def test_sft_settings_and_data_are_written(
    calibsft: Command, run: tuple[Path, Path], random_checkpoint: Path
) -> None:
    config = exported(calibsft, run, "--pipeline", "calibsft")
    assert config["data"]["train_batch_size"] == 8 and config["data"]["max_length"] == 64
    assert config["data"]["calibsft"] == {"loss": "calibsft", "beta": 0.5, "steps": 3, "seed": 0}
    assert config["optim"]["lr"] == 1e-3 and config["trainer"]["total_training_steps"] == 3
    rows = pl.read_parquet("out/train.parquet")
    assert len(rows) == len(QUESTIONS) * len(SAMPLES)
    assert (rows["confidence_at"] < rows["response_ids"].list.len()).all()


def test_the_last_pipeline_and_the_run_of_the_recipe_are_the_default(
    calibsft: Command, run: tuple[Path, Path], random_checkpoint: Path
) -> None:
    recipe, root = run
    Path("runs").mkdir()
    Path("runs/small-seed0").symlink_to(root)
    code, out, _ = calibsft("export", "verl", recipe, "--model", random_checkpoint)
    assert (code, out.splitlines()[0]) == (0, "export: exports/small-calibsft-rlcr")


def test_the_command_gives_verl_the_files_beside_it_and_further_options(
    calibsft: Command, run: tuple[Path, Path], random_checkpoint: Path
) -> None:
    rl(calibsft, run, random_checkpoint)
    moved = Path("a b").resolve()
    Path("out").rename(moved)
    bin_folder = Path("bin").resolve()
    bin_folder.mkdir()
    (bin_folder / "python").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    (bin_folder / "python").chmod(0o755)
    environment = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", moved / "train.sh", "trainer.nnodes=2"],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == [
        "-m", "verl.trainer.main_ppo", "--config-path", str(moved), "--config-name", "config",
        f"data.train_files='{moved}/train.parquet'", f"data.val_files='{moved}/train.parquet'",
        f"trainer.default_local_dir='{moved}/checkpoints'", "trainer.nnodes=2",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "options, sentence",
    [
        (["--pipeline", "calibsft,rlcr"], "sft/model: not made yet; run calibsft run"),
        (["--pipeline", "calibsft", "--run", "nowhere"], "nowhere/build: not made yet"),
        (["--pipeline", "rlcrr"], "unknown step of a pipeline 'rlcrr'; did you mean 'rlcr'?"),
        (["--pipeline", ""], "name a pipeline with at least one step"),
        (["--set", "training_seeds=[0, 1]"], "at most one training seed"),
        (["--pipeline", "rlcr", "--set", "rl.stop=[x]"], "verl has no stop strings; leave out rl.stop"),
        (
            ["--pipeline", "rlcr", "--set", "rl.questions=16"],
            "8 questions are fewer than the rl.questions 16",
        ),
        (["--pipeline", "rlcr", "--model", "org/name@v1"], "verl takes no revision of a model"),
    ],
)
def test_what_cannot_be_exported_is_refused_in_one_sentence(
    calibsft: Command, run: tuple[Path, Path], options: list[str], sentence: str
) -> None:
    recipe, root = run
    code, out, err = calibsft("export", "verl", recipe, "--run", root, *options)
    assert (code, out) == (2, "")
    assert sentence in err and err.count("\n") == 1
    assert not Path("exports").exists()


def test_an_unknown_trainer_is_refused(calibsft: Command) -> None:
    code, _, err = calibsft("export", "verll", "tiny")
    assert (code, err) == (2, "calibsft: unknown trainer 'verll'; did you mean 'verl'? (known: verl)\n")


def test_a_model_without_a_chat_template_is_refused(
    calibsft: Command, run: tuple[Path, Path], random_checkpoint: Path
) -> None:
    tokenizer = load_tokenizer(str(random_checkpoint))
    tokenizer.chat_template = None
    tokenizer.save_pretrained("plain")
    for name in ("config.json", "model.safetensors"):
        Path("plain", name).symlink_to(random_checkpoint / name)
    recipe, root = run
    code, _, err = calibsft("export", "verl", recipe, "--run", root, "--pipeline", "rlcr", "--model", "plain")
    assert code == 2 and "plain: its tokenizer has no chat template" in err
