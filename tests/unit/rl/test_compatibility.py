"""What RL refuses before it begins or goes on, and what of a training is kept."""

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
import torch

from calibsft.errors import InputError
from calibsft.pipeline import load_checked
from calibsft.recipe import load_recipe
from calibsft.rl.batches import TokenCounts, rows_of, tensors
from calibsft.rl.method import Group, Method
from calibsft.rl.methods import METHODS, method_settings
from calibsft.rl.options import AnswerIsRewarded, DividesByDeviation, LooksAtGroup, RewardsConfidence
from calibsft.rl.scoring import Response, ScoredGroup
from calibsft.rl.settings import MethodSettings, RlSettings
from calibsft.settings import validated
from calibsft.sft.loss import Counts, token_weights
from calibsft.sft.settings import SftSettings
from calibsft.training import settings as training_settings


def test_one_name_of_a_watcher_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_settings, "find_spec", lambda _: object())
    assert RlSettings(report_to="wandb").report_to == ("wandb",)
    assert RlSettings(report_to=["wandb", "trackio"]).report_to == ("wandb", "trackio")


def test_a_watcher_that_does_not_exist_or_is_not_installed_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(InputError, match=r"unknown name in report_to 'wanbd'; did you mean 'wandb'"):
        validated(RlSettings, {"report_to": "wanbd"}, "rl")
    monkeypatch.setattr(training_settings, "find_spec", lambda _: None)
    with pytest.raises(InputError, match="not installed: pip install tensorboard"):
        validated(RlSettings, {"report_to": "tensorboard"}, "rl")
    monkeypatch.setattr(training_settings, "find_spec", lambda _: object())
    assert validated(RlSettings, {"report_to": "tensorboard"}, "rl").report_to == ("tensorboard",)


OPTIONS = {
    "leave_one_out": True,
    "mean_only": True,
    "segment_loss": True,
    "overlong_buffer": 4,
    "keep_unanimous": True,
    "all_groups": True,
}


def learnt(method: Method, settings: MethodSettings) -> list[float]:
    """The weight of every token of a group whose responses differ in all that an option looks at."""
    digits = Group(
        np.array([True, False, False]), np.array([2, 5, 8]) / 9, np.array([True, True, True]), 0.5
    )  # fmt: skip
    marks = [np.arange(n) >= (n if method.is_scalar else n - 2) for n in (4, 8, 10)]
    responses = [Response((5,) * len(m), np.zeros(len(m), np.float32), m, "ok", None) for m in marks]
    method = replace(method, divide_by_std=method.divide_by_std and not settings.option("mean_only"))
    rows = rows_of(ScoredGroup("q", (1,), tuple(responses), digits), method, settings)
    counts = TokenCounts(22, sum(int(mark.sum()) for mark in marks))
    found = (
        tensors(rows, 3, counts, bool(settings.option("segment_loss")), 0)["advantages"].flatten().tolist()
    )
    return [*found, float(method.keeps_mixed_only(settings))]


class Everything(AnswerIsRewarded, DividesByDeviation, LooksAtGroup, RewardsConfidence):
    """All options at once, whether the method has them or not."""


@pytest.mark.parametrize("option", [option for option in OPTIONS if option != "keep_unanimous"])
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_a_method_has_an_option_exactly_where_it_changes_something(method: Method, option: str) -> None:
    plain = Everything(name=method.name, max_new_tokens=10)
    changed = plain.model_copy(update={option: OPTIONS[option]})
    matters = learnt(method, changed) != learnt(method, plain)
    assert matters == (option in method.settings.model_fields)


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("method", METHODS)
def test_an_option_that_a_method_has_not_is_refused_with_those_that_have(method: str, option: str) -> None:
    given = {"max_new_tokens": 10, option: OPTIONS[option]}
    takers = [name for name in METHODS if option in METHODS[name].settings.model_fields]
    if method in takers:
        assert method_settings(method, given, "rl").option(option) == OPTIONS[option]
    else:
        with pytest.raises(
            InputError, match=f"{option} means nothing here, it is for {', '.join(takers)}; leave"
        ):
            method_settings(method, given, "rl")


def test_unanimous_groups_are_kept_by_methods_that_leave_them_out_and_reward_confidence() -> None:
    for name, method in METHODS.items():
        useful = method.dynamic_sampling and not method.is_scalar
        assert useful == ("keep_unanimous" in method.settings.model_fields), name


def test_all_groups_beside_unanimous_ones_are_refused() -> None:
    given = {"all_groups": True, "keep_unanimous": True}
    with pytest.raises(
        InputError, match=r"rl\.keep_unanimous means nothing with rl\.all_groups.*; change either"
    ):
        method_settings("coca", given, "rl")


def test_the_number_of_questions_of_no_evaluation_is_refused() -> None:
    with pytest.raises(InputError, match=r"rl\.eval_questions means nothing without rl\.eval_every"):
        method_settings("coca", {"eval_questions": 7}, "rl")
    assert method_settings("coca", {"eval_questions": 7, "eval_every": 2}, "rl").eval_questions == 7


def test_a_recipe_gives_an_option_to_the_methods_that_have_it() -> None:
    with pytest.raises(
        InputError, match=r"rl\.leave_one_out .* coca, dcpo; give it to them under rl_methods"
    ):
        load_checked("tiny", ["rl.leave_one_out=true", "pipelines=[[coca], [rlcr]]"])
    load_checked("tiny", ["rl_methods.coca.leave_one_out=true", "pipelines=[[coca], [rlcr]]"])


def test_defaults_are_the_methods_own_unless_given() -> None:
    defaults = {name: method.settings() for name, method in METHODS.items()}
    assert {name: settings.steps for name, settings in defaults.items() if settings.steps != 160} == {
        "redoubt": 80
    }
    assert {name: settings.kl for name, settings in defaults.items() if settings.kl} == {"rlvr": 1e-3}
    recipe = load_recipe("tiny", ["rl.steps=null", "rl_methods.rlvr={kl: 0.0}"])
    assert recipe.rl_of("redoubt").steps == 80 and recipe.rl_of("rlvr").kl == 0.0


def test_a_mix_of_nothing_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"targets\.mix means nothing here, it is for calibsft, shuffled; leave it out"
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
