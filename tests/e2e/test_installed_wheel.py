"""The wheel in an environment of its own, used in an empty folder: commands that need its recipes, templates and data."""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from distribution import ROOT, build

pytestmark = pytest.mark.slow

# Enough steps for the base model to keep to the format; nothing is read from what it says.
SMALL = (
    "base.steps=300", "base.warmup_steps=20", "questions.limit=40", "rollout.samples=12", "rollout.shard_questions=40",
    "sft.steps=2", "sft.batch_size=8", "sft.micro_batch_size=8", "targets.redraws=1", "prior.contexts=2",
    "eval.limit=8", "eval.samples=2", "eval.benchmarks=[multiply-1]", "pipelines=[[calibsft]]",
)  # fmt: skip
# What each command says that it cannot know without a file that comes with the package.
SAID = {
    "ls recipes": "qwen3-8b/methods",
    "run qwen3-8b/methods --with 8-gpus --dry-run": "calibsft-rlcr",
    "run study --dry-run": "rollout",
    "reproduce --dry-run": "stages: base",
    "doctor": "required",
}


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the wheel, and of this environment the packages that it needs, but not the checkout."""
    folder = tmp_path_factory.mktemp("environment")
    wheel = build("wheel", ROOT, folder)
    venv.create(folder, symlinks=True)
    python = folder / "bin/python"
    # A path in a .pth file leads to the packages alone: .pth files there, such as that of a checkout, are not read.
    own = sysconfig.get_path("purelib", vars={"base": str(folder)})
    Path(own, "packages.pth").write_text(sysconfig.get_path("purelib"))
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps"]
    # --ignore-installed: the same version may be among the packages already.
    subprocess.run([*pip, "--no-index", "--ignore-installed", str(wheel)], check=True)
    return folder


def used(environment: Path, where: Path, *words: str, status: int = 0) -> str:
    """What the installed command prints in this folder; where it is to fail, what it says."""
    names = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [environment / "bin/calibsft", *words], cwd=where, env=names, capture_output=True, text=True
    )
    assert done.returncode == status, done.stderr
    return done.stderr if status else done.stdout


def test_the_installed_package_is_the_one_that_runs(environment: Path, tmp_path: Path) -> None:
    command = [environment / "bin/python", "-P", "-c", "import calibsft; print(calibsft.__file__)"]
    names = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=tmp_path, env=names, capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()).is_relative_to(environment)


def test_the_whole_of_tiny_runs_from_nothing_to_the_report(environment: Path, tmp_path: Path) -> None:
    settings = [word for setting in SMALL for word in ("--set", setting)]
    used(environment, tmp_path, "run", "tiny", *settings)
    page = (tmp_path / "runs/tiny-seed0/report/report.html").read_text()
    assert "CalibSFT" in page and "</html>" in page
    score = used(environment, tmp_path, "score", "runs/tiny-seed0/eval-calibsft")
    assert "multiply-1" in score


@pytest.mark.parametrize("command", SAID)
def test_commands_find_what_came_with_the_package(command: str, environment: Path, tmp_path: Path) -> None:
    assert SAID[command] in used(environment, tmp_path, *command.split())
