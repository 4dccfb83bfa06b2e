"""What RL refuses before it begins or goes on, and what of a training is kept."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from calibsft.errors import InputError
from calibsft.recipe import RlSettings
from calibsft.rl.fitting import require_fitting
from calibsft.rl.methods import METHODS
from calibsft.rl.trainer import RlTrainer
from calibsft.training import watchers


def test_one_name_of_a_watcher_is_enough() -> None:
    assert RlSettings(report_to="wandb").report_to == ("wandb",)
    assert RlSettings(report_to=["wandb", "trackio"]).report_to == ("wandb", "trackio")


def test_a_watcher_that_does_not_exist_or_is_not_installed_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(InputError, match=r"unknown name in rl\.report_to 'wanbd'; did you mean 'wandb'"):
        require_fitting(METHODS["rlcr"], RlSettings(report_to="wanbd"))
    monkeypatch.setattr(watchers, "find_spec", lambda _: None)
    with pytest.raises(InputError, match="not installed: pip install tensorboard"):
        require_fitting(METHODS["rlcr"], RlSettings(report_to="tensorboard"))
    monkeypatch.setattr(watchers, "find_spec", lambda _: object())
    require_fitting(METHODS["rlcr"], RlSettings(report_to="tensorboard"))


def test_a_training_is_not_resumed_by_another_number_of_processes(tmp_path: Path) -> None:
    (tmp_path / "0-sampling.json").write_text(json.dumps({"processes": 2}))
    trainer = SimpleNamespace(args=SimpleNamespace(world_size=1, process_index=0))
    with pytest.raises(InputError, match="began with 2 processes and now has 1"):
        RlTrainer.load_sampling(trainer, tmp_path)
