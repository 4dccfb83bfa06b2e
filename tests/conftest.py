"""Shared by all tests: no network, one torch thread, and small real checkpoints."""

import os
import sys
from pathlib import Path

import hypothesis
import pytest

from browser_page import browser, open_page  # noqa: F401 - fixtures
from chat_servers import varied_base  # noqa: F401 - a fixture
from command import Command
from hub_cache import hub_cache  # noqa: F401 - a fixture
from judge_server import server  # noqa: F401 - a fixture
from scripted_server import local_server, strong_server  # noqa: F401 - fixtures

# Before any test imports a Hugging Face library.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("OMP_NUM_THREADS", "1")

# No test is timed: a busy machine would fail it.
hypothesis.settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("untimed")

# What a training ends with depends on the processor's rounding. Another seed is a harsher change than any rounding,
# so a test that holds for several seeds holds on other machines: `make portable` sets this.
TRAINING_SEED = int(os.environ.get("CALIBSFT_TEST_TRAINING_SEED", "0"))


@pytest.fixture
def calibsft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command, run in process inside an empty folder: exit code, standard output, standard error."""
    from calibsft.cli import main

    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["calibsft", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        shown = capsys.readouterr()
        return int(end.value.code or 0), shown.out, shown.err

    return run


@pytest.fixture(scope="session")
def random_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A playground checkpoint with random weights: real files, no training."""
    import torch

    from calibsft.playground.base import build_model
    from calibsft.playground.tokenizer import build_tokenizer

    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("random-checkpoint")
    tokenizer = build_tokenizer()
    build_model(tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def short_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A playground base trained just long enough to follow the response format."""
    from calibsft.playground.base import train_base
    from calibsft.playground.settings import BaseSettings
    from calibsft.progress import Progress

    folder = tmp_path_factory.mktemp("short-base")
    settings = BaseSettings(steps=250, warmup_steps=20)
    with Progress("base", settings.steps, "steps") as progress:
        train_base(settings, TRAINING_SEED, folder, progress)
    return folder
