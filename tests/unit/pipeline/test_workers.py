"""Stages side by side, in real worker processes."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from calibsft import progress
from calibsft.artifacts import locked
from calibsft.errors import InputError
from calibsft.pipeline import execute, run_pipeline
from calibsft.recipe import Recipe
from calibsft.stages import STAGES
from fake_stages import fake_plan, marks


class FakeRun:
    """A run of fake stages in `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def __call__(self, *lines: dict[str, Any], jobs: int = 2, **keys: Any) -> None:
        (self.root / "plan.json").write_text(json.dumps(lines))
        run_pipeline(Recipe(name="fake", jobs=jobs, **keys), self.root)

    def recipe(self) -> str:
        path = self.root / "recipe.resolved.yaml"
        return path.read_text() if path.is_file() else ""

    def complete(self) -> set[str]:
        return {path.parent.name for path in self.root.glob("*/manifest.json")}

    def manifest(self, name: str) -> dict[str, Any]:
        return json.loads((self.root / name / "manifest.json").read_text())


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeRun:
    monkeypatch.setattr(execute, "plan", lambda recipe, root: fake_plan(root))
    return FakeRun(tmp_path)


DIAMOND = (
    {"name": "base"},
    {"name": "left", "needs": ["base"], "awaits": "right began"},
    {"name": "right", "needs": ["base"], "awaits": "left began", "rests": 0.2},
    {"name": "third", "needs": ["base"]},
    {"name": "end", "needs": ["left", "right", "third"]},
)


def test_stages_that_do_not_wait_for_each_other_run_at_the_same_time(fake: FakeRun) -> None:
    fake(*DIAMOND)
    found = marks(fake.root)
    assert found[:2] == ["base began", "base ended"] and found[-2:] == ["end began", "end ended"]
    assert set(found[2:4]) == {"left began", "right began"}
    running = most = 0
    for mark in found:
        running += 1 if mark.endswith("began") else -1
        most = max(most, running)
    assert most == 2, "as many as the recipe's jobs"
    manifests = {line["name"]: fake.manifest(line["name"]) for line in DIAMOND}
    here = {name for name, manifest in manifests.items() if manifest["process"] == os.getpid()}
    assert {"base", "end"} <= here <= {"base", "end", "third"}
    assert manifests["left"]["process"] != manifests["right"]["process"]
    assert {name for name, manifest in manifests.items() if manifest["alone"]} == here, (
        "live lines only where a process has the terminal for itself"
    )
    assert progress.ALONE


def test_a_second_run_skips_all_without_another_process(
    fake: FakeRun, capsys: pytest.CaptureFixture[str]
) -> None:
    fake(*DIAMOND)
    before = marks(fake.root)
    capsys.readouterr()
    fake(*DIAMOND)
    assert marks(fake.root) == before
    # Only this process's own lines are captured here, not those of workers.
    said = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in said] == [line["name"] for line in DIAMOND]
    assert all("done before, skipped" in line for line in said)


@pytest.mark.parametrize("case", ["one job", "a launcher of one process"])
def test_stages_follow_the_plan_in_this_process(
    fake: FakeRun, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    if case != "one job":
        monkeypatch.setenv("WORLD_SIZE", "1")
    names = ("a", "b", "c")
    fake(*({"name": name} for name in names), jobs=1 if case == "one job" else 2)
    assert marks(fake.root) == [f"{name} {what}" for name in names for what in ("began", "ended")]
    assert {fake.manifest(name)["process"] for name in names} == {os.getpid()}


def test_a_failure_lets_the_stage_beside_it_finish_and_a_rerun_goes_on(
    fake: FakeRun, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = {"name": "broken", "awaits": "beside began", "fails": "rows.csv: no such file; check the path"}
    lines = (
        {"name": "beside", "awaits": "broken failed", "rests": 0.5},
        broken,
        {"name": "later"},
        {"name": "child", "needs": ["broken"]},
        {"name": "other", "needs": ["beside"]},
    )
    with pytest.raises(InputError, match=r"^rows\.csv: no such file; check the path$"):
        fake(*lines)
    assert fake.complete() == {"beside"}
    assert marks(fake.root)[-2:] == ["broken failed", "beside ended"], "nothing else was begun"
    told = capsys.readouterr().err
    assert "warning: broken: rows.csv: no such file; check the path; waiting for beside" in told
    fake(lines[0], {"name": "broken"}, *lines[2:])
    assert fake.complete() == {line["name"] for line in lines}
    assert marks(fake.root).count("beside began") == 1, "what was done is not done again"


def test_a_stage_that_fails_alone_stops_the_run(fake: FakeRun) -> None:
    lines = ({"name": "first", "fails": "mend this"}, {"name": "child", "needs": ["first"]})
    with pytest.raises(InputError, match=r"^mend this$"):
        fake(*lines)
    assert marks(fake.root) == ["first began", "first failed"]


def test_every_failure_is_told(fake: FakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError) as caught:
        fake(
            {"name": "one", "awaits": "two began", "fails": "mend one"},
            {"name": "two", "awaits": "one failed", "rests": 0.3, "fails": "mend two"},
        )
    told = capsys.readouterr().err + str(caught.value)
    assert "mend one" in told and "mend two" in told


def test_a_worker_that_is_killed_ends_the_run_and_a_rerun_goes_on(fake: FakeRun) -> None:
    dying = {"name": "dying", "awaits": "beside began", "dies": True}
    lines = ({"name": "before"}, {"name": "beside", "needs": ["before"]}, dying | {"needs": ["before"]})
    with pytest.raises(InputError, match="killed from outside"):
        fake(*lines)
    assert "dying" not in fake.complete()
    fake(*lines[:2], {"name": "dying", "needs": ["before"]})
    assert fake.complete() == {"before", "beside", "dying"}


def test_several_processes_of_a_launcher_are_refused_at_once(
    fake: FakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="calibsft run works in one process and a launcher has started 2"):
        fake({"name": "only"})
    assert marks(fake.root) == [] and fake.recipe() == ""


def test_trainings_are_what_several_processes_share() -> None:
    assert {name for name, stage in STAGES.items() if stage.shared} == {"sft", "rl"}


def test_several_gpus_are_refused_before_the_first_stage(
    fake: FakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ({"name": "rollout"}, {"name": "training", "needs": ["rollout"], "trains": True})
    monkeypatch.setattr("torch.cuda.device_count", lambda: 3)
    with pytest.raises(InputError, match=r"3 GPUs are visible .* CUDA_VISIBLE_DEVICES=0"):
        fake(*lines)
    assert marks(fake.root) == [] and fake.recipe() == ""
    fake(*lines, device="cpu")
    assert fake.complete() == {"rollout", "training"}
    fake(*lines)  # what is trained already needs no GPU


def test_several_gpus_do_not_matter_where_nothing_is_trained(
    fake: FakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 3)
    fake({"name": "rollout"})
    assert fake.complete() == {"rollout"}


def test_a_refused_run_changes_nothing_and_begins_nothing(fake: FakeRun) -> None:
    first, last = {"name": "first"}, {"name": "last", "needs": ["first"], "settings": {"seed": 0}}
    fake(first, last, seed=0)
    before = marks(fake.root), fake.recipe()
    assert "seed: 0" in before[1]
    (fake.root / "first" / "manifest.json").unlink()
    with pytest.raises(InputError, match="seed was 0 and is now 5"):
        fake(first, last | {"settings": {"seed": 5}}, seed=5)
    assert (marks(fake.root), fake.recipe()) == before


def test_a_second_run_in_the_same_folder_is_refused_by_the_name_of_the_first(fake: FakeRun) -> None:
    fake({"name": "only"}, seed=0)
    before = fake.recipe()
    with locked(fake.root), pytest.raises(InputError, match=f"process {os.getpid()} on .* since 20"):
        fake({"name": "only"}, seed=5)
    assert fake.recipe() == before
    fake({"name": "only"}, seed=5)
    assert "seed: 5" in fake.recipe()


def test_a_stage_does_not_read_a_damaged_one_unless_asked(fake: FakeRun) -> None:
    first, second = {"name": "first"}, {"name": "second", "needs": ["first"]}
    fake(first)
    (fake.root / "first" / "made").write_text("tsrif")
    with pytest.raises(
        InputError, match=r"first/made: damaged, .*; remove it and .*first/manifest\.json, then run"
    ):
        fake(first, second)
    assert fake.complete() == {"first"}
    run_pipeline(Recipe(name="fake"), fake.root, hash_check=False)
    assert fake.complete() == {"first", "second"}
