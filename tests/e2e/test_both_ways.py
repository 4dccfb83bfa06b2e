"""Every stage both ways: as a step of a recipe and as a single command, with equal folders; each continues the other."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import warm_start
from calibsft.pipeline import Planned, load_checked, plan
from calibsft.settings import Settings
from calibsft.settings.options import Option
from command_process import ENVIRONMENT

pytestmark = pytest.mark.long

# Small, and with what is seldom set, so that every kind of option goes through the command line.
CHANGES = (
    "base.steps=250", "base.warmup_steps=20", "questions.limit=40", "rollout.samples=8", "rollout.shard_questions=20",
    "rollout.force_answer=true", "sft.steps=4", "sft.batch_size=16", "sft.micro_batch_size=16", "sft.lora.rank=4",
    "targets.redraws=1", "targets.samples=6", "prior.contexts=2", "rl.steps=1", "rl.questions=4", "rl.micro_batch_size=16",
    "rl.eval_every=1", "rl.eval_questions=4", "eval.limit=5", "eval.samples=2", "eval.benchmarks=[multiply-1, cross]",
    "eval.budgets=[8, 12]", "eval.estimators=[verbalized, self-consistency]", "jobs=1", "pipelines=[[calibsft, rlcr]]",
    "eval.per_benchmark.cross.subset=4", "questions.subset=60",
)  # fmt: skip
ROOT = Path("run")
OF_THE_MOMENT = {"wall_seconds", "cpu_seconds", "peak_memory_mb", "resumed"}


def calibsft(folder: Path, *words: str) -> str:
    done = warm_start.run(words, folder, ENVIRONMENT)
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stderr}"
    return done.stderr


def run_recipe(folder: Path) -> str:
    settings = [word for change in CHANGES for word in ("--set", change)]
    return calibsft(folder, "run", "tiny", "--out", str(ROOT), *settings)


def stages() -> list[Planned]:
    """All stages of the recipe but its report."""
    return plan(load_checked("tiny", list(CHANGES)), ROOT)[:-1]


def words(planned: Planned) -> list[str]:
    """The single command that performs a stage, with every option given."""
    kind = type(planned.stage)
    found = [kind.kind, "--out", str(ROOT / planned.name)]
    given: set[tuple[str, ...]] = set()
    for option in kind.options():
        value = _value(planned.stage, option)
        if value not in (None, (), {}) and option.key not in given:
            given.add(option.key)
            found += _spelled(option, value)
    return found


def _value(settings: Any, option: Option) -> Any:
    for key in option.key:
        settings = getattr(settings, key, None)
    return settings


def _dotted(value: dict[str, Any]) -> list[str]:
    """The values of a mapping of plain values or of sections, as dotted keys."""
    plain = {
        f"{name}.{key}" if isinstance(inner, Settings) else name: one
        for name, inner in value.items()
        for key, one in (
            inner.model_dump(exclude_none=True) if isinstance(inner, Settings) else {"": inner}
        ).items()
    }
    return [f"{key}={json.dumps(one)}" for key, one in plain.items()]


def _spelled(option: Option, value: Any) -> list[str]:
    if not option.flags:
        return [*map(str, value)] if isinstance(value, tuple) else [str(value)]
    if option.type is bool:
        return [option.flags[0] if value else f"--no-{option.flags[0][2:]}"]
    if isinstance(value, dict):
        return [word for key in _dotted(value) for word in (option.flags[0], key)]
    if option.joined:
        return [option.flags[0], ",".join(map(str, value))]
    values = value if isinstance(value, tuple) else (value,)
    return [word for one in values for word in (option.flags[0], str(one))]


@pytest.fixture(scope="module")
def by_recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recipe")
    run_recipe(folder)
    return folder


@pytest.fixture(scope="module")
def by_commands(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("commands")
    for planned in stages():
        calibsft(folder, *words(planned))
    return folder


def manifest(folder: Path, stage: str) -> dict[str, Any]:
    found = json.loads((folder / ROOT / stage / "manifest.json").read_text())
    return {key: value for key, value in found.items() if key not in OF_THE_MOMENT}


@pytest.mark.parametrize("name", [planned.name for planned in stages()])
def test_a_stage_leaves_the_same_folder_both_ways(by_recipe: Path, by_commands: Path, name: str) -> None:
    assert manifest(by_commands, name) == manifest(by_recipe, name)
    recorded = [folder / ROOT / name / "recipe.resolved.yaml" for folder in (by_recipe, by_commands)]
    assert recorded[0].read_text() == recorded[1].read_text()


def test_a_recipe_goes_on_with_what_single_commands_made(by_recipe: Path, by_commands: Path) -> None:
    said = run_recipe(by_commands)
    skipped = re.findall(r"^(\S+): done before, skipped", said, re.MULTILINE)
    assert skipped == [planned.name for planned in stages()]
    report = "run/report/report.md"
    assert _without_costs(by_commands / report) == _without_costs(by_recipe / report)


def _without_costs(path: Path) -> str:
    return path.read_text().partition("## Details")[0]


@pytest.mark.parametrize("name", ["rollout", "verify", "build"])
def test_a_single_command_goes_on_with_what_a_recipe_began(
    by_recipe: Path, tmp_path: Path, name: str
) -> None:
    shutil.copytree(by_recipe / ROOT, tmp_path / ROOT)
    (planned,) = (planned for planned in stages() if planned.name == name)
    stage = tmp_path / ROOT / name
    (stage / "manifest.json").unlink()
    sorted(stage.glob("*.parquet"))[-1].unlink()
    calibsft(tmp_path, *words(planned))
    assert manifest(tmp_path, name) == manifest(by_recipe, name)
    assert run_recipe(tmp_path).count("done before, skipped") == len(stages()) + 1
