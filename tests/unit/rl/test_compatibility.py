"""What RL refuses before it begins or goes on, and what of a training is kept."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import numpy as np
import pytest
import torch

from calibsft.errors import InputError
from calibsft.pipeline import load_checked
from calibsft.recipe import load_recipe
from calibsft.rl.batches import TokenCounts, rows_of, tensors
from calibsft.rl.fitting import ignored_settings, require_fitting
from calibsft.rl.method import Group, Method
from calibsft.rl.methods import METHODS
from calibsft.rl.scoring import Response, ScoredGroup
from calibsft.rl.settings import RlSettings
from calibsft.rl.trainer import RlTrainer
from calibsft.settings import validated
from calibsft.sft.loss import Counts, token_weights
from calibsft.sft.settings import SftSettings
from calibsft.training import watchers


def test_one_name_of_a_watcher_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchers, "find_spec", lambda _: object())
    assert RlSettings(report_to="wandb").report_to == ("wandb",)
    assert RlSettings(report_to=["wandb", "trackio"]).report_to == ("wandb", "trackio")


def test_a_watcher_that_does_not_exist_or_is_not_installed_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(InputError, match=r"unknown name in report_to 'wanbd'; did you mean 'wandb'"):
        validated(RlSettings, {"report_to": "wanbd"}, "rl")
    monkeypatch.setattr(watchers, "find_spec", lambda _: None)
    with pytest.raises(InputError, match="not installed: pip install tensorboard"):
        validated(RlSettings, {"report_to": "tensorboard"}, "rl")
    monkeypatch.setattr(watchers, "find_spec", lambda _: object())
    assert validated(RlSettings, {"report_to": "tensorboard"}, "rl").report_to == ("tensorboard",)


def test_a_training_is_not_resumed_by_another_number_of_processes(tmp_path: Path) -> None:
    (tmp_path / "0-sampling.json").write_text(json.dumps({"processes": 2}))
    trainer = SimpleNamespace(args=SimpleNamespace(world_size=1, process_index=0))
    with pytest.raises(InputError, match="began with 2 processes and now has 1"):
        RlTrainer.load_sampling(trainer, tmp_path)


OPTIONS = {
    "leave_one_out": True,
    "mean_only": True,
    "segment_loss": True,
    "overlong_buffer": 4,
    "keep_unanimous": True,
}


def learnt(method: Method, settings: RlSettings) -> list[float]:
    """The weight of every token of a group whose responses differ in all that an option looks at."""
    digits = Group(
        np.array([True, False, False]), np.array([2, 5, 8]) / 9, np.array([True, True, True]), 0.5, settings.leave_one_out
    )  # fmt: skip
    marks = [np.arange(n) >= (n if method.is_scalar else n - 2) for n in (4, 8, 10)]
    responses = [Response((5,) * len(m), np.zeros(len(m), np.float32), m, "ok", None) for m in marks]
    method = replace(method, divide_by_std=method.divide_by_std and not settings.mean_only)
    rows = rows_of(ScoredGroup("q", (1,), tuple(responses), digits), method, settings)
    counts = TokenCounts(22, sum(int(mark.sum()) for mark in marks))
    found = tensors(rows, 3, counts, settings.segment_loss, 0)["advantages"].flatten().tolist()
    return [*found, float(method.dynamic_sampling and not settings.keep_unanimous)]


@pytest.mark.parametrize("option", [option for option in OPTIONS if option != "keep_unanimous"])
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_an_option_is_refused_by_name_exactly_where_it_changes_nothing(method: Method, option: str) -> None:
    plain = RlSettings(max_new_tokens=10)
    changed = plain.model_copy(update={option: OPTIONS[option]})
    require_fitting(method, plain)
    if learnt(method, changed) == learnt(method, plain):
        with pytest.raises(
            InputError, match=f"rl.{option} means nothing for {method.name}, which .*leave it out"
        ):
            require_fitting(method, changed)
    else:
        require_fitting(method, changed)


def test_the_options_that_each_method_refuses() -> None:
    scalar = {"keep_unanimous", "segment_loss", "leave_one_out"}
    assert {name: set(ignored_settings(method)) for name, method in METHODS.items()} == {
        "rlvr": scalar,
        "rlcr": scalar,
        "c3rl": scalar,
        "coca": set(),
        "dcpo": set(),
        "redoubt": {"leave_one_out", "mean_only", "overlong_buffer"},
    }


def test_the_number_of_questions_of_no_evaluation_is_refused() -> None:
    with pytest.raises(InputError, match=r"rl\.eval_questions means nothing without rl\.eval_every"):
        require_fitting(METHODS["coca"], RlSettings(eval_questions=7))
    require_fitting(METHODS["coca"], RlSettings(eval_questions=7, eval_every=2))


def test_a_recipe_is_refused_for_the_one_method_that_an_option_means_nothing_to() -> None:
    with pytest.raises(
        InputError, match=r"rl\.leave_one_out means nothing for rlcr.* coca, dcpo \(in a recipe"
    ):
        load_checked("tiny", ["rl.leave_one_out=true", "pipelines=[[coca], [rlcr]]"])
    load_checked("tiny", ["rl_methods.coca.leave_one_out=true", "pipelines=[[coca], [rlcr]]"])


def test_a_mix_of_nothing_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"targets\.mix means nothing here, it is for calibsft; leave it out"
    ):
        load_recipe("tiny", ["targets.name=csft", "targets.mix=0.25"])
    assert load_recipe("tiny", ["targets.name=csft"]).targets.name == "csft"


@pytest.mark.parametrize("loss", get_args(SftSettings.model_fields["loss"].annotation))
def test_a_weight_that_the_loss_does_not_look_at_is_refused(loss: str) -> None:
    segments, correct = torch.tensor([[0, 1, 1, 2], [0, 1, 2, 2]]), torch.tensor([True, False])
    weights = [token_weights(loss, segments, correct, Counts(1, 2, 6), beta) for beta in (0.5, 0.3)]
    if torch.equal(*weights):
        with pytest.raises(InputError, match=f"sft.beta means nothing for the loss {loss}"):
            validated(SftSettings, {"loss": loss, "beta": 0.3}, "sft")
    else:
        assert validated(SftSettings, {"loss": loss, "beta": 0.3}, "sft").beta == 0.3
    validated(SftSettings, {"loss": loss}, "sft")
