"""RL as a stage: every method trains from files to a checkpoint, and an interrupted training ends where an
uninterrupted one does.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from math import cos, pi
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedModel

from calibsft.errors import InputError
from calibsft.evaluation import Benchmarks, evaluate_with
from calibsft.evaluation.settings import EvalSettings
from calibsft.playground.world import training_questions
from calibsft.responses.formats import FORMATS
from calibsft.responses.prompts import Prompting
from calibsft.rl.methods import METHODS
from calibsft.rl.train import (
    _Note,
    micro_batches,
    train_policy,
)
from calibsft.rl.trainer import RlTrainer
from calibsft.rollouts.collect import Collector
from calibsft.schema import Question
from calibsft.training.settings import LoraSettings
from judge_server import Server

FORMAT = FORMATS["probability"]


EVEN = tuple(f"{n:04d}" for n in range(0, 10_000, 2))
# Half of what the short base answers is even: groups with right and wrong responses without a good model.
QUESTIONS = [Question(q.id, q.text, EVEN, "exact", "even") for q in training_questions()[:12]]
RATES = {("even", q.id): 0.5 for q in QUESTIONS}
QUICK = {
    "steps": 2, "questions": 4, "group_size": 4, "updates": 2, "micro_batch_size": 4, "max_new_tokens": 30,
    "learning_rate": 1e-4, "warmup_steps": 0, "save_every": 1,
}  # fmt: skip
PICKLES = (".bin", ".pt", ".pth", ".pkl")


def train(base: Path, folder: Path, method: str = "dcpo", **changes: Any) -> dict[str, Any]:
    """Train with `QUICK` and some changes; keyword arguments of `train_policy` are told from settings by name."""
    folder.mkdir(exist_ok=True)
    others = {key: changes.pop(key) for key in ("evaluation", "label") if key in changes}
    questions, seed = changes.pop("asked", QUESTIONS), changes.pop("seed", 0)
    settings = METHODS[method].settings.model_validate({**QUICK, **changes})
    written = FORMATS["integer"] if method == "c3rl" else FORMAT
    return train_policy(
        str(base), questions, RATES, settings, Prompting(written), seed, folder, "cpu", **others
    )


def weights(folder: Path) -> Tensor:
    model = AutoModelForCausalLM.from_pretrained(folder)
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def saved(folder: Path) -> bytes:
    return (folder / "model" / "model.safetensors").read_bytes()


def journal(folder: Path, name: str = "metrics.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


@pytest.fixture(scope="module")
def runs(short_base: Path, tmp_path_factory: pytest.TempPathFactory) -> "Runs":
    """The folder and the facts of a quick run of a method, made once."""

    @cache
    def run(method: str) -> tuple[Path, dict[str, Any]]:
        folder = tmp_path_factory.mktemp("runs") / method
        return folder, train(short_base, folder, method)

    return run


Runs = Callable[[str], tuple[Path, dict[str, Any]]]


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_to_an_ordinary_checkpoint(method: str, runs: Runs, short_base: Path) -> None:
    folder, facts = runs(method)
    before, after = weights(short_base), weights(folder / "model")
    assert after.shape == before.shape and torch.isfinite(after).all() and not torch.equal(after, before)
    files = {path.name for path in (folder / "model").iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "README.md"} <= files
    assert not [path for path in folder.rglob("*") if path.suffix in PICKLES]
    assert not (folder / "checkpoints").exists()
    card = (folder / "model" / "README.md").read_text()
    assert f"Trained by {METHODS[method].title}" in card and METHODS[method].malformed in card
    assert "2 rollout steps of 4 questions" in card and "drawn from 12 questions" in card
    assert (facts["method"], facts["steps"], facts["updates"], facts["questions"]) == (
        METHODS[method].title,
        2,
        4,
        12,
    )
    assert facts["tokens"] > 0 and facts["device"] == "cpu"


def test_methods_train_to_different_weights(runs: Runs) -> None:
    ends = {method: saved(runs(method)[0]) for method in METHODS}
    assert len(set(ends.values())) == len(METHODS)


LOGGED = {
    "step", "loss", "grad_norm", "learning_rate", "pass@1", "ece", "brier", "auroc", "malformed", "distinct_values",
    "confidence_entropy", "effective_support", "top1", "mean_confidence", "response_tokens", "reward_confidence",
    "wrong_below_half",
    "kept_groups", "generated_groups", "batches", "generated_batches", "updates",
    "seconds/generate", "seconds/verify", "seconds/train", "seconds/weights", "tokens_per_second", "stale_groups",
    "sampler/gap", "sampler/kl", "sampler/clipped",
}  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
def test_the_journal_has_a_line_per_rollout_step_with_every_figure(method: str, runs: Runs) -> None:
    folder, facts = runs(method)
    lines = journal(folder)
    assert [line["step"] for line in lines] == [1, 2] and [line["updates"] for line in lines] == [2, 4]
    for line in lines:
        assert line.keys() >= LOGGED and ("reward_answer" in line) == (method != "redoubt")
        if not METHODS[method].is_scalar:
            assert 0 < line["gradient/confidence"] <= 1
        by_reason = sum(value for key, value in line.items() if key.startswith("malformed/"))
        assert line["malformed"] == pytest.approx(by_reason)
        assert line["generated_groups"] == 4 * line["batches"]
        assert line["kept_groups"] == 4 and 0 < line["pass@1"] < 1 and 0 < line["response_tokens"] <= 30
        assert min(line["seconds/generate"], line["seconds/verify"], line["seconds/train"]) > 0
        assert ("kl" in line) == (method == "rlvr"), "only RLVR is held to its start"
    assert np.cumsum([line["batches"] for line in lines]).tolist() == [
        line["generated_batches"] for line in lines
    ]
    assert facts["generated_batches"] == lines[-1]["generated_batches"]
    assert method != "c3rl" or facts["generated_batches"] == 2, "c3rl drops no group"


def test_the_same_seed_trains_the_same_weights_and_another_seed_others(
    runs: Runs, short_base: Path, tmp_path: Path
) -> None:
    train(short_base, tmp_path / "same")
    train(short_base, tmp_path / "other", seed=1)
    assert saved(tmp_path / "same") == saved(runs("dcpo")[0]) != saved(tmp_path / "other")


def test_the_training_loop_takes_micro_batches_for_one_update(short_base: Path, tmp_path: Path) -> None:
    figures = []
    for size in (16, 4, 1):
        train(short_base, tmp_path / str(size), steps=1, updates=1, micro_batch_size=size)
        (line,) = journal(tmp_path / str(size))
        figures.append((line["loss"], line["grad_norm"]))
    for loss, norm in figures[1:]:
        assert loss == pytest.approx(figures[0][0], abs=1e-6) and norm == pytest.approx(
            figures[0][1], rel=1e-4
        )
    assert figures[0][1] > 0


def interrupt_after(updates: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the training stop dead once it has made so many updates."""
    training_step = RlTrainer.training_step

    def step(self: RlTrainer, *args: Any, **kwargs: Any) -> Tensor:
        if self.state.global_step >= updates:
            raise KeyboardInterrupt
        return training_step(self, *args, **kwargs)

    monkeypatch.setattr(RlTrainer, "training_step", step)


LONG = {"steps": 4, "save_every": 2, "warmup_steps": 1, "seed": 5}


def interrupted(
    base: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, method: str, **changes: Any
) -> None:
    """Stop in the middle of step 4, two steps after the last checkpoint, then go on."""
    with monkeypatch.context() as patch:
        interrupt_after(7, patch)
        with pytest.raises(KeyboardInterrupt):
            train(base, folder, method, **LONG, **changes)
    assert [line["step"] for line in journal(folder)] == [1, 2, 3]
    assert [path.name for path in (folder / "checkpoints").iterdir()] == ["checkpoint-4"]
    train(base, folder, method, **LONG, **changes)


def test_a_resumed_training_ends_where_an_uninterrupted_one_does(
    short_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    train(short_base, tmp_path / "whole", **LONG)
    capsys.readouterr()
    interrupted(short_base, tmp_path / "cut", monkeypatch, "dcpo")
    assert "2 of 4 steps were done before" in capsys.readouterr().err
    assert saved(tmp_path / "cut") == saved(tmp_path / "whole")
    # An epoch means nothing here: questions are planned by position, without end.
    timed = ("seconds", "step_time", "epoch", "tokens_per_second")
    lines = [
        [{k: v for k, v in line.items() if not k.startswith(timed)} for line in journal(tmp_path / name)]
        for name in ("whole", "cut")
    ]
    assert lines[0] == lines[1]
    rates = [line["learning_rate"] for line in lines[0]]
    # Two updates of warm-up, then a cosine over six down to half; a line has the rate of its second update.
    assert rates == pytest.approx(
        [1e-4 * (0.5 if i == 1 else 0.5 + 0.25 * (1 + cos(pi * (i - 2) / 6))) for i in (1, 3, 5, 7)]
    )


@pytest.mark.parametrize("method", ["rlcr", "rlvr"])
def test_resumed_adapters_end_where_uninterrupted_ones_do(
    method: str, short_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {"lora": {"rank": 4, "alpha": 8}, "learning_rate": 1e-3}
    train(short_base, tmp_path / "whole", method, **LONG, **changes)
    interrupted(short_base, tmp_path / "cut", monkeypatch, method, **changes)
    assert saved(tmp_path / "cut") == saved(tmp_path / "whole")


def test_running_checkpoints_hold_no_pickle(
    short_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("torch.save writes a pickle")

    monkeypatch.setattr(torch, "save", refuse)
    interrupt_after(3, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        train(short_base, tmp_path / "run", "redoubt")
    files = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {"", ".json", ".jsonl", ".jinja", ".safetensors"}
    assert {"0-shard.safetensors", "0-random.safetensors", "sampling.json"} <= {path.name for path in files}


def test_adapters_are_merged_into_an_ordinary_checkpoint(short_base: Path, tmp_path: Path) -> None:
    adapters = LoraSettings(rank=4, alpha=8)
    train(short_base, tmp_path / "run", "rlvr", lora=adapters.model_dump(), learning_rate=3e-3, updates=1)
    files = {path.name for path in (tmp_path / "run" / "model").iterdir()}
    assert not [name for name in files if "adapter" in name] and "model.safetensors" in files
    before, after = weights(short_base), weights(tmp_path / "run" / "model")
    assert after.shape == before.shape and not torch.equal(after, before)
    first, second = journal(tmp_path / "run")
    # Fresh adapters do nothing, so that the first update diverges from nothing, on any processor.
    assert abs(first["kl"]) < 1e-6 and second["kl"] > 1e-4, "the divergence is measured from the start"


def test_gradient_checkpointing_changes_memory_and_not_the_training(short_base: Path, tmp_path: Path) -> None:
    for name, on in (("plain", False), ("checkpointing", True)):
        train(short_base, tmp_path / name, steps=1, gradient_checkpointing=on)
    (plain,), (found,) = journal(tmp_path / "plain"), journal(tmp_path / "checkpointing")
    assert (
        found["grad_norm"] == pytest.approx(plain["grad_norm"], rel=1e-4) and found["loss"] == plain["loss"]
    )


EVALUATION = EvalSettings(benchmarks=("multiply-1", "cross"), samples=2, max_new_tokens=30)


def test_held_out_evaluations_are_noted_and_leave_the_training_as_it_was(
    runs: Runs, short_base: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    train(short_base, folder, evaluation=EVALUATION, eval_every=2, eval_questions=3)
    (line,) = journal(folder, "evals.jsonl")
    assert line["step"] == 2 and {"id", "ood"} <= line["splits"].keys()
    assert {line["splits"][split]["n"] for split in ("id", "ood")} == {6}, "three questions, two samples"
    assert saved(folder) == saved(runs("dcpo")[0])


def test_evaluations_use_the_weights_as_they_are_and_a_repeated_one_replaces_its_line(
    short_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    changes = {"evaluation": EVALUATION, "eval_every": 1, "eval_questions": 4, "steps": 3, "save_every": 2}
    evaluated: list[Tensor] = []
    monkeypatch.setattr("calibsft.rl.evaluations.evaluate_with", _noting_weights(evaluated))
    with monkeypatch.context() as patch:
        interrupt_after(6, patch)
        patch.setattr(RlTrainer, "_maybe_log_save_evaluate", _stop_at(6))
        with pytest.raises(KeyboardInterrupt):
            train(short_base, folder, **changes)
    before = journal(folder, "evals.jsonl")
    assert [line["step"] for line in before] == [1, 2, 3]
    train(short_base, folder, **changes)
    assert journal(folder, "evals.jsonl") == before, "step 3 was evaluated twice and is noted once"
    first, second, third, again = evaluated
    assert torch.equal(third, again) and torch.equal(third, weights(folder / "model"))
    assert not torch.equal(first, second) and not torch.equal(second, third)


def _noting_weights(evaluated: list[Tensor]) -> Callable[..., dict[str, Any]]:
    """Stands for an evaluation and keeps the weights that it had."""

    def evaluate(collector: Collector, *arguments: Any) -> dict[str, Any]:
        parameters = collector.engine.model.parameters()
        evaluated.append(torch.cat([parameter.detach().flatten() for parameter in parameters]))
        return evaluate_with(collector, *arguments)

    return evaluate


def _stop_at(updates: int) -> Callable[..., None]:
    """Stands for the moment after an evaluation and before the step is logged and saved."""
    original = RlTrainer._maybe_log_save_evaluate

    def stop(self: RlTrainer, *args: Any, **kwargs: Any) -> None:
        if self.state.global_step >= updates:
            raise KeyboardInterrupt
        original(self, *args, **kwargs)

    return stop


def says_yes_to_even_numbers(body: dict[str, Any]) -> tuple[int, str]:
    said = body["messages"][1]["content"].split("<prediction>")[1].split("<")[0]
    return 200, "Yes" if said[-1] in "02468" else "No"


def test_the_judge_grades_rewards_and_held_out_evaluations(
    calibsft: Callable[..., tuple[int, str, str]],
    short_base: Path,
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server.answer = says_yes_to_even_numbers
    rows = [
        {"question_id": q.id, "question": q.text, "gold": "an even number", "kind": "judge"}
        for q in QUESTIONS
    ]
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    class Judged(Benchmarks):
        """The same questions, for a judge."""

        def __init__(self, settings: EvalSettings, limit: int) -> None:
            super().__init__(settings, limit)
            self.questions = [replace(question, grader="judge") for question in self.questions]

    monkeypatch.setattr("calibsft.rl.evaluations.Benchmarks", Judged)
    sizes = {**QUICK, "steps": 1, "eval_every": 1, "eval_questions": 2}
    changes = [word for key, value in sizes.items() for word in ("--set", f"{key}={value}")]
    paths = ("--model", short_base, "--data", tmp_path / "questions.jsonl", "--benchmarks", "multiply-1")
    words = ("rl", "--method", "dcpo", *paths, "--device", "cpu", *changes, "--out")
    code, _, err = calibsft(*words, "judged", "--judge", "m", "--judge-url", server.url)
    assert code == 0, err
    named = "judge-1 m (exact aliases unasked)"
    assert json.loads(Path("judged/manifest.json").read_text())["reward_graders"] == [named]
    assert 0 < journal(Path("judged"))[0]["pass@1"] < 1
    (verdicts,) = Path("judged/evals").glob("*/verdicts/part-*.parquet")
    assert set(pl.read_parquet(verdicts)["grader"]) == {named}
    assert any(f"<question>{QUESTIONS[0].text}</question>" in prompt for prompt in server.prompts)
    code, _, err = calibsft(*words, "aliases", "--set", "max_batches=1")
    assert code == 2 and "(0 all right, 4 all wrong)" in err, "nothing that it says is an alias"


def test_unanimous_groups_are_refused_or_kept_for_their_confidence(short_base: Path, tmp_path: Path) -> None:
    hard = [replace(question, gold="nothing") for question in QUESTIONS]
    with pytest.raises(
        InputError, match=r"no question had both right and wrong .* \(0 all right, 8 all wrong\)"
    ):
        train(short_base, tmp_path / "dropped", asked=hard, max_batches=2)
    for option in ("keep_unanimous", "all_groups"):
        train(short_base, tmp_path / option, asked=hard, **{option: True}, steps=1)
        assert not torch.equal(weights(tmp_path / option / "model"), weights(short_base))
        assert journal(tmp_path / option)[0]["kept_groups"] == 4


def test_what_does_not_fit_is_refused_before_a_model_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"c3rl is defined for the integer format, not for 'probability'"):
        train_policy(
            "no such model",
            QUESTIONS,
            RATES,
            METHODS["c3rl"].settings(),
            Prompting(FORMAT),
            0,
            tmp_path,
            "cpu",
        )


@pytest.mark.parametrize(
    "settings, sentence",
    [
        ({"max_new_tokens": 10, "overlong_buffer": 11}, "overlong_buffer is larger than rl.max_new_tokens"),
        ({"dual_clip": 1.2}, "dual_clip 1.2 must exceed"),
    ],
)
def test_numbers_that_do_not_go_together_are_refused(settings: dict[str, float], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        METHODS["rlcr"].settings(**settings)


@pytest.mark.parametrize("option", ["mean_only", "leave_one_out", "segment_loss"])
def test_an_option_changes_what_is_learnt_and_not_what_is_sampled_first(
    option: str, runs: Runs, short_base: Path, tmp_path: Path
) -> None:
    plain, _ = runs("dcpo")
    train(short_base, tmp_path / "run", **{option: True})
    assert journal(tmp_path / "run")[0]["pass@1"] == journal(plain)[0]["pass@1"]
    assert saved(tmp_path / "run") != saved(plain)


def test_mean_only_leaves_the_deviation_out(
    short_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    monkeypatch.setattr(
        "calibsft.rl.train.run", lambda trainer, *_: seen.append(trainer.method.divide_by_std)
    )
    for method, changes in (("dcpo", {}), ("dcpo", {"mean_only": True}), ("redoubt", {})):
        train(short_base, tmp_path / f"{method} {len(changes)}", method, **changes)
    assert seen == [True, False, False]


def logs(**changes: float) -> dict[str, float]:
    return {
        "loss": 0.1,
        "pass@1": 0.5,
        "brier": 0.25,
        "distinct_values": 2.0,
        "top1": 0.5,
        "malformed": 0.0,
    } | changes


def test_unreadable_confidences_are_not_called_a_collapse(capsys: pytest.CaptureFixture[str]) -> None:
    _Note()(logs(top1=0.95, malformed=0.95))
    assert capsys.readouterr().err == ""


def test_a_collapse_of_confidence_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    note = _Note()
    for top1 in (0.5, 0.9, 0.91, 0.99):
        note(logs(top1=top1))
    err = capsys.readouterr().err
    assert err.count("warning") == 1 and "91% of the responses state the same confidence" in err
    assert note(logs()) == "Pass@1 0.500, Brier 0.250, 2.0 values per question, Top-1 50%"


@pytest.mark.parametrize("loss", [float("nan"), float("inf"), float("-inf")])
def test_a_loss_that_is_not_finite_ends_the_training(loss: float) -> None:
    with pytest.raises(InputError, match=r"no longer finite numbers; lower rl\.learning_rate"):
        _Note()(logs(loss=loss))
    with pytest.raises(InputError, match="no longer finite numbers"):
        _Note()(logs(grad_norm=loss))


def test_a_training_that_diverges_ends_with_that_sentence(
    short_base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute = RlTrainer._compute_loss

    def diverged(self: RlTrainer, model: PreTrainedModel, inputs: dict[str, Tensor]) -> Tensor:
        return compute(self, model, inputs) * (torch.nan if self.state.global_step == 3 else 1)

    monkeypatch.setattr(RlTrainer, "_compute_loss", diverged)
    with pytest.raises(InputError, match="no longer finite numbers"):
        train(short_base, tmp_path / "run", steps=3)
    assert (tmp_path / "run" / "checkpoints" / "checkpoint-2").is_dir(), "the first step was whole"
    assert not (tmp_path / "run" / "checkpoints" / "checkpoint-4").exists()


def test_steps_that_processes_cannot_share_evenly_are_refused() -> None:
    settings = METHODS["rlcr"].settings(questions=8, group_size=4, updates=2, micro_batch_size=4)
    assert [micro_batches(16, settings, processes) for processes in (1, 2, 4)] == [(4, 4), (4, 2), (4, 1)]
    few = settings.model_copy(update={"micro_batch_size": 16})
    assert micro_batches(16, few, 2) == (8, 1)
    assert micro_batches(16, settings, 8) == (2, 1)
    for processes in (3, 5):
        with pytest.raises(InputError, match=f"cannot be shared evenly by {processes} processes"):
            micro_batches(16, settings, processes)
