"""`calibsft reproduce`, with real models of tiny steps: every experiment, and a study that is killed."""

import subprocess
import time
from pathlib import Path
from random import Random

import pytest

from calibsft.reproduction.experiments import EXPERIMENTS
from calibsft.reproduction.run import chosen, left_of, reproduce, study_recipe
from calibsft.reproduction.study import Study
from command_process import ENVIRONMENT, calibsft, finish
from small_study import write_small_study

KILLED = "lambda,seeds,samples"


@pytest.mark.long
def test_every_experiment_runs_from_nothing_to_its_table(tmp_path: Path) -> None:
    experiments = chosen(())
    recipe = study_recipe(experiments, (0,), str(write_small_study(tmp_path)), ["jobs=1"])
    study = Study(recipe, tmp_path / "run", (0,))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("calibsft.reproduction.scores.DRAWS", 3)
        patch.setattr("calibsft.reproduction.results.KINDS", {"svg": None})
        document = reproduce(experiments, study, tmp_path / "out", "calibsft reproduce", fresh=False)
    assert not left_of(study).todo
    text = document.read_text()
    for name, experiment in EXPERIMENTS.items():
        assert f"## {experiment.title}\n" in text
        assert len((tmp_path / "out" / "tables" / f"{name}.csv").read_text().splitlines()) > 1, name
    assert "its experiment was not run" not in text
    assert "no interval here covers other trainings" in text, "one seed"


def tables(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in (folder / "reproduction" / "tables").iterdir()}


@pytest.mark.long
def test_a_study_killed_three_times_ends_with_the_same_tables(tmp_path: Path) -> None:
    recipe, whole, killed = write_small_study(tmp_path), tmp_path / "whole", tmp_path / "killed"

    def command(run: Path) -> list[str]:
        return calibsft("reproduce", "--recipe", recipe, "--only", KILLED, "--seeds", "0,1", "--run", run)

    began = time.monotonic()
    finish(command(whole))
    took = time.monotonic() - began
    random = Random(43)
    for _ in range(3):
        process = subprocess.Popen(command(killed), env=ENVIRONMENT, stderr=subprocess.DEVNULL)
        time.sleep(random.uniform(0.15, 0.3) * took)
        process.kill()
        process.wait()
    done = len(list(killed.glob("*/manifest.json")))
    assert 0 < done < len(list(whole.glob("*/manifest.json"))), "killed in the middle"
    finish(command(killed))
    assert tables(killed) == tables(whole)
