"""`calibsft doctor`: what it says of things that work, are absent, or break in any way."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from calibsft import doctor
from calibsft.doctor import Finding, packages, plugins, trial
from calibsft.doctor.engines import engine_findings
from calibsft.doctor.machine import machine_findings
from calibsft.doctor.plugins import plugin_findings
from calibsft.doctor.trial import try_module
from calibsft.engines import ENGINES
from calibsft.integrations.exports import TRAINERS
from calibsft.integrations.plugins import PLUGINS
from command import Command


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose modules can be imported, here and in other processes."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "source, said",
    [
        ("raise ImportError('libcudart.so.13 is missing')", "ImportError: libcudart.so.13 is missing"),
        (
            "import os, signal; os.kill(os.getpid(), signal.SIGILL)",
            "importing fragile ends the process with SIGILL",
        ),
        ("import time; time.sleep(60)", "importing fragile takes more than 1 s"),
        ("import sys; sys.exit(3)", ""),
    ],
)
def test_a_library_that_fails_in_any_way_is_told_and_harms_nothing(
    source: str, said: str, modules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "PATIENCE_SECONDS", 1.0)
    (modules / "fragile.py").write_text(source)
    assert try_module("fragile") == trial.Trial(False, said)


def test_a_file_of_the_current_folder_is_not_taken_for_a_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "aiohttp.py").write_text("raise ImportError('mine')")
    monkeypatch.chdir(tmp_path)
    assert try_module("aiohttp").worked


def test_an_engine_is_absent_broken_or_there(modules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "PATIENCE_SECONDS", 60.0)
    found = {finding.name: finding for finding in engine_findings()}
    assert set(found) == set(ENGINES) and found["transformers"].state == "ok"
    assert "torch 2." in found["transformers"].detail
    if found["vllm"].state == "absent":
        assert found["vllm"].remedy == ENGINES["vllm"].install
        (modules / "vllm.py").write_text("raise ImportError('of another CUDA')")
        (broken,) = (finding for finding in engine_findings() if finding.name == "vllm")
        assert (broken.state, broken.detail) == ("broken", "ImportError: of another CUDA")


def test_a_library_that_has_not_taken_the_plug_in_is_told(modules: Path) -> None:
    for name, trainer in {**TRAINERS, **PLUGINS}.items():
        package = modules / trainer.package
        package.mkdir()
        (package / "__init__.py").write_text(
            ""
        )  # a trainer of another version, without the parts that are asked
        (found,) = (finding for finding in plugin_findings() if finding.name == name)
        assert (
            found.state == "broken"
            and ("ModuleNotFoundError" in found.detail or "ImportError" in found.detail)
            and trainer.manual in found.remedy
        )
        shutil.rmtree(package)
        sys.modules.pop(trainer.package, None)


def test_a_library_that_is_absent_comes_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plugins, "find_spec", lambda _: None)
    found = {finding.name: finding for finding in plugin_findings()}
    assert found.keys() == {**TRAINERS, **PLUGINS}.keys()
    for finding in found.values():
        assert finding.state == "absent" and "pip install " in finding.remedy
    assert found["inspect"].remedy.startswith("pip install calibsft inspect_ai; see ")


def test_packages_that_are_missing_or_too_old_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [
        "numpy>=1",
        "polars>=99",
        "nowhere>=2; python_version>'3'",
        "uvloop<0; extra=='serve'",
        "nowhere; extra=='serve'",
        "nobody; extra=='serve'",
        "gone; extra=='dev'",
    ]
    monkeypatch.setattr(packages, "requires", lambda _: asked)
    *wrong, summary = packages.required_findings()
    assert [(one.name, one.state) for one in wrong] == [("polars", "broken"), ("nowhere", "broken")]
    assert "needed is >=99" in wrong[0].detail and wrong[1].remedy.startswith("pip install 'nowhere>=2")
    assert summary.detail == "1 of 3 are installed, in versions that fit"
    otel, serve = packages.extra_findings()
    assert (otel.name, otel.state) == ("otel", "ok")  # asks for nothing here
    assert (serve.name, serve.state, serve.remedy) == ("serve", "absent", "pip install 'calibsft[serve]'")
    assert serve.detail.startswith("not installed: nowhere, nobody; uvloop is ")


def test_gpus_that_torch_does_not_see_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    states = {}
    for path in (tmp_path, Path("/nowhere")):
        monkeypatch.setenv("PATH", str(path))
        *_, gpus = machine_findings()
        states[path] = gpus.state
    assert states == {tmp_path: "broken", Path("/nowhere"): "absent"}


def test_the_command_tells_every_finding_and_fails_if_one_is_broken(
    calibsft: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [
        Finding("machine", "disk", "ok", "80 GiB free"),
        Finding("engines", "vllm", "absent", "vllm is not installed", "install vllm"),
    ]
    monkeypatch.setattr(doctor, "findings", lambda: iter(found))
    code, out, _ = calibsft("doctor")
    assert code == 0
    assert out.splitlines() == [
        "machine", "  ok      disk  80 GiB free", "engines", "  absent  vllm  vllm is not installed", "          → install vllm",
        "nothing is broken; what is absent is optional",
    ]  # fmt: skip
    found.append(Finding("packages", "polars", "broken", "polars is 1.0"))
    code, out, _ = calibsft("doctor")
    assert code == 1 and out.splitlines()[-1] == "broken: polars"
    code, out, _ = calibsft("doctor", "--json")
    assert code == 1 and [row["state"] for row in json.loads(out)] == ["ok", "absent", "broken"]
